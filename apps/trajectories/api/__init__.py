"""Trajectories and imports over REST."""
