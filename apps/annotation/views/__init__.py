"""Pages of queues, and the desk."""
