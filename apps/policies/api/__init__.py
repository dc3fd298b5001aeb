"""REST for policies and their publications."""
