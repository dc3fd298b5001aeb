"""Builders of queues for tests."""

from collections.abc import Sequence
from typing import Any

from apps.accounts.models import Workspace
from apps.annotation.desk.actions import record
from apps.annotation.desk.assignments import next_assignment
from apps.annotation.kinds.answers import Choice
from apps.annotation.kinds.pair_selection import Pair
from apps.annotation.models import Annotator, Item, Preference, Queue
from apps.annotation.queues import known_answers
from apps.annotation.queues.queue_lifecycle import create_queue_of_pairs, create_queue_of_trajectories
from apps.trajectories.comparison.actions import digest_of
from apps.trajectories.models import Step, StepKind, Task, Trajectory
from tests import factories


def rule(*, of: Workspace) -> Annotator:
    return factories.annotator(of=of, kind=Annotator.Kind.RULE)


def queue(*, of: Workspace | None = None, items: int = 1, steps: int = 2, **fields: Any) -> Queue:
    """An open queue of `items` pairs, each of its own task; `fields` as `create_queue_of_pairs` takes them."""
    home = of or factories.workspace()
    defaults = {"workspace": home, "created_by": None, "name": "Which is better?"}
    return create_queue_of_pairs(**{**defaults, "pairs": [pair(of=home, steps=steps) for _ in range(items)], **fields})


def queue_of_trajectories(
    kind: Queue.Kind = Queue.Kind.STEPS, *, of: Workspace | None = None, items: int = 1, steps: int = 4, **fields: Any
) -> Queue:
    """An open queue of `items` single trajectories; `fields` as `create_queue_of_trajectories` takes them."""
    home = of or factories.workspace()
    defaults = {"workspace": home, "created_by": None, "name": "Where does it go wrong?"}
    trajectories = [attempt(factories.task(of=home), steps) for _ in range(items)]
    return create_queue_of_trajectories(**{**defaults, "kind": kind, "trajectories": trajectories, **fields})


def pair(*, of: Workspace, steps: int = 2) -> Pair:
    """Two attempts at a new task that diverge at the second step; the first one succeeded."""
    task = factories.task(of=of)
    good, bad = (attempt(task, steps, succeeds=succeeds) for succeeds in (True, False))
    return Pair(task.pk, good.pk, bad.pk)


def attempt(task: Task, steps: int = 2, *, succeeds: bool = False, **fields: Any) -> Trajectory:
    trajectory = factories.trajectory(of=task, steps=[], success=succeeds, step_count=steps, **fields)
    Step.objects.bulk_create(_steps(trajectory, steps, "lamp" if succeeds else "cup"))
    return trajectory


def _steps(trajectory: Trajectory, count: int, target: str) -> Sequence[Step]:
    """Calls of a tool `look`: the first is the same in every attempt, the later ones look for `target`."""
    messages = [_look(index, target if index else "all") for index in range(count)]
    return [
        Step(
            trajectory=trajectory,
            index=index,
            kind=StepKind.TOOL,
            tool="look",
            headline=f"shelf {index}",
            action=digest_of(message),
            context=[_came(trajectory, index)],
            message=message,
        )
        for index, message in enumerate(messages)
    ]


def _look(index: int, target: str) -> dict[str, Any]:
    function = {"name": "look", "arguments": {"at": f"shelf {index}", "for": target}}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call{index}", "type": "function", "function": function}],
    }


def _came(trajectory: Trajectory, index: int) -> dict[str, str]:
    if index == 0:
        return {"role": "user", "content": trajectory.task.instruction}
    return {"role": "tool", "tool_call_id": f"call{index - 1}", "content": f"Shelf {index - 1} is empty."}


def known(queue: Queue, purpose: Item.Purpose, how_many: int = 1, answer: int = 1) -> list[Item]:
    """Give the first unseen items of `queue` a known answer."""
    items = list(queue.items.filter(purpose=Item.Purpose.WORK, taken=0).order_by("position")[:how_many])
    for item in items:
        known_answers.make_known(item=item, purpose=purpose, answer=answer, because="See rule 2.", by=None)
    queue.refresh_from_db()
    return items


def judge(queue: Queue, who: Annotator, strength: int) -> Preference:
    """Judge the next item of `who` with this answer."""
    assignment = next_assignment(queue=queue, annotator=who)
    assert assignment is not None
    return record(assignment=assignment, answer=Choice(strength))
