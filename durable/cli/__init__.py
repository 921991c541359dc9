"""The command line, `python -m durable`: an edge. Nothing imports it, and it needs click (`durable-engine[cli]`)."""
