"""Comparison of trajectories of one task: where they agree, and where they diverge."""
