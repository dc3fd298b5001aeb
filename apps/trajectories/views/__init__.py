"""Pages of trajectories and tasks."""
