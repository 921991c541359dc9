"""Programs that show durable in use."""
