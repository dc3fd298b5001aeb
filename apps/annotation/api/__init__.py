"""REST for queues, review, machine annotators, and imported judgments."""
