"""Rollouts: requested from a policy, followed live, and stored when they end."""
