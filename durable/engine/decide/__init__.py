"""From an operation to its decision."""
