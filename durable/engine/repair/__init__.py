"""An operator corrects a workflow: retry, fork, repair."""
