"""Costs of calls, and usage limits of workspaces and sessions."""
