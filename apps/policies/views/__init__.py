"""Pages of policies and their publications."""
