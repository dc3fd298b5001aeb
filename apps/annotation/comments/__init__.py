"""Comments on trajectories, and the mentions in them."""
