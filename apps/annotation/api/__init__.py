"""Queues, review, machine annotators and adopted judgements over REST."""
