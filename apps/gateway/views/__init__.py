"""Pages of the gateway."""
