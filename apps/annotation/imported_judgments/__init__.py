"""Judgments from imported files."""
