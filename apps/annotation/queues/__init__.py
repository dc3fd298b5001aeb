"""Making and changing queues: which trajectories, in which order, for how many people."""
