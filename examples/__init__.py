"""Programs that show durable at work."""
