"""What lives in the service's event loop."""
