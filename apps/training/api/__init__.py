"""Runs and rollouts over REST."""
