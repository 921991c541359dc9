"""Values that anyone may import: what a workflow is, what is stored of it, and how values become JSON."""
