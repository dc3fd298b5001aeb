"""Filling a queue and measuring one: both may occupy a worker for long, so of each workspace, and of whoever created the queues, one does either at a
time. Researchers may create any number of workspaces."""

from uuid import UUID


def lock_of(workspace_id: UUID) -> str:
    """The advisory lock that a worker holds meanwhile. A filling that found it held is sent to a worker again after a minute."""
    return f"queue work {workspace_id}"


def lock_of_person(user_id: int | None, workspace_id: UUID) -> str:
    """The other one that it holds: of the queue's creator or, if nobody is left who created it, of the workspace."""
    return f"queue work of {user_id or workspace_id}"
