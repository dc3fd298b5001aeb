"""Tells the pages that watch a run or a batch of rollouts."""

from uuid import UUID


def show(run_id: UUID) -> None:
    """Send the state of a run to everyone who looks at it."""


def show_rollouts(batch_id: UUID) -> None:
    """Send the state of a batch to everyone who looks at it."""
