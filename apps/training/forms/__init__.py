"""Forms for launching runs and rollouts."""
