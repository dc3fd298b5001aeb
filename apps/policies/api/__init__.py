"""Policies and their publications over REST."""
