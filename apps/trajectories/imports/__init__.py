"""Turns uploads into stored trajectories, in the background, without losing or duplicating any."""
