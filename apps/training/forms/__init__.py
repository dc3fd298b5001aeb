"""What researchers send to launch runs and rollouts."""
