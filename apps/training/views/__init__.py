"""Pages of runs and rollouts."""
