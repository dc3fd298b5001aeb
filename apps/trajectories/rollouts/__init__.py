"""Policies at work: what is asked of them, followed while they play, and stored when they have ended."""
