"""What stores that speak SQL share."""
