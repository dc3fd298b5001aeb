"""Filling a queue and measuring one: both may occupy a worker for long, so of each workspace one does either at a time."""

from uuid import UUID


def lock_of(workspace_id: UUID) -> str:
    """The advisory lock that a worker holds meanwhile. A filling that found it held is sent to a worker again after a minute."""
    return f"queue work {workspace_id}"
