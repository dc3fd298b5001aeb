"""Queues, review, machine annotators and adopted judgments over REST."""
