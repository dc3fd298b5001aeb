"""Judgements that came in with a file."""
