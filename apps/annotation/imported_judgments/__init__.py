"""Judgments that came in with a file."""
