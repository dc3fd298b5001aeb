"""Making queues and steering them: which runs, in which order, for how many people."""
