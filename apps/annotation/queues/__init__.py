"""Creating and changing queues: selection of trajectories, item order, overlap."""
