"""Many workflows: operations as values, pure decisions over the state, the thread that owns it, and the façade."""
