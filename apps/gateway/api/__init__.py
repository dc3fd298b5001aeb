"""REST API of sessions."""
