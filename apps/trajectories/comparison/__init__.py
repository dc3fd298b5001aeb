"""Trajectories of one task beside each other: what they did alike, and where they part."""
