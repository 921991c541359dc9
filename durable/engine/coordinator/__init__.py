"""The thread that owns all state."""
