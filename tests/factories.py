"""Factories of rows for tests: each creates one valid object and whatever it needs."""

from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256
from itertools import count
from typing import Any
from uuid import UUID

from django.utils.timezone import now

from apps.accounts.models import ApiToken, Membership, Role, User, Workspace
from apps.annotation.models import Annotator, Assignment, Item, Preference, Queue
from apps.datasets.models import Dataset, Version
from apps.gateway.models import Call, Session
from apps.gateway.sessions import open_session
from apps.gateway.splits.changes import ArmPlan, create_split
from apps.gateway.splits.models import TrafficSplit
from apps.policies.models import Endpoint, Policy
from apps.training.models import Run
from apps.trajectories.comparison.actions import digest_of
from apps.trajectories.imports.bulk_copy import Origin, copy_in
from apps.trajectories.imports.preparation import prepare
from apps.trajectories.models import Step, StepKind, Task, Trajectory
from contract import trajectory as records

_number = count(1)


def workspace(**fields: Any) -> Workspace:
    n = next(_number)
    return Workspace.objects.create(**{"name": f"Workspace {n}", "slug": f"workspace-{n}", **fields})


def user(**fields: Any) -> User:
    n = next(_number)
    return User.objects.create_user(
        **{"email": f"person{n}@example.org", "name": f"Person {n}", "password": "pass-phrase-1", **fields}
    )


def member(role: Role = Role.RESEARCHER, *, of: Workspace | None = None, **fields: Any) -> Membership:
    """A new person with `role` in workspace `of` (a new one by default)."""
    return Membership.objects.create(user=user(**fields), workspace=of or workspace(), role=role)


def policy(*, of: Workspace | None = None, **fields: Any) -> Policy:
    n = next(_number)
    return Policy.objects.create(
        **{
            "workspace": of or workspace(),
            "name": f"policy-{n}",
            "kind": Policy.Kind.SCRIPTED,
            "location": "expert",
            **fields,
        }
    )


def dataset_version(*, of: Workspace | None = None, **fields: Any) -> Version:
    """A frozen version without files, with 40 training and 10 validation rows according to the database."""
    n = next(_number)
    home = of or workspace()
    return Version.objects.create(
        **{
            "workspace": home,
            "dataset": Dataset.objects.create(workspace=home, name=f"dataset-{n}"),
            "number": 1,
            "state": Version.State.FROZEN,
            "frozen_at": now(),
            "content_hash": "0" * 64,
            "row_counts": {"train": 40, "validation": 10, "test": 0},
            **fields,
        }
    )


def run(*, of: Workspace | None = None, **fields: Any) -> Run:
    n = next(_number)
    home = of or workspace()
    return Run.objects.create(
        **{
            "workspace": home,
            "name": f"run-{n}",
            "algorithm": Run.Algorithm.DPO,
            "version": fields.pop("version", None) or dataset_version(of=home),
            "base": fields.pop("base", None) or policy(of=home, kind=Policy.Kind.MODEL, location="example/base"),
            **fields,
        }
    )


def trained_policy(*, of: Workspace | None = None, run_id: UUID | str | None = None, **fields: Any) -> Policy:
    """A language model and the finished run that made it, with weights in RUNS_DIR/<run_id>."""
    home = of or workspace()
    trained = policy(of=home, **{"kind": Policy.Kind.MODEL, "location": "", **fields})
    ended: dict[str, Any] = {"state": Run.State.FINISHED, "finished_at": now()}
    run(of=home, result=trained, **ended, **({"id": run_id} if run_id else {}))
    return trained


def token(member: Membership, secret: str = "", **fields: Any) -> str:
    """The secret of a new API token of `member`."""
    secret = secret or f"rt_{next(_number)}"
    ApiToken.objects.create(
        membership=member, name="test", prefix=secret[:8], digest=sha256(secret.encode()).hexdigest(), **fields
    )
    return secret


def task(*, of: Workspace | None = None, **fields: Any) -> Task:
    n = next(_number)
    return Task.objects.create(
        **{"workspace": of or workspace(), "key": f"task-{n}", "instruction": f"Do thing {n}.", **fields}
    )


def assistant_message(content: str, **fields: Any) -> dict[str, Any]:
    """An assistant message."""
    return {"role": "assistant", "content": content, **fields}


def trajectory(
    *, of: Task | None = None, steps: Sequence[tuple[list[dict[str, Any]], dict[str, Any]]] | None = None, **fields: Any
) -> Trajectory:
    """A trajectory at task `of` with `steps`, each (context, message); by default the user asks and the agent answers."""
    n = next(_number)
    of = of or task()
    if steps is None:
        steps = [([{"role": "user", "content": of.instruction}], assistant_message(f"Answer {n}."))]
    created = Trajectory.objects.create(
        **{
            "workspace": of.workspace,
            "task": of,
            "source": "test",
            "step_count": len(steps),
            "content_hash": n.to_bytes(32, "big"),
            **fields,
        }
    )
    Step.objects.bulk_create(
        Step(
            trajectory=created,
            index=index,
            kind=StepKind.MESSAGE,
            action=digest_of(message),
            context=context,
            message=message,
        )
        for index, (context, message) in enumerate(steps)
    )
    return created


def imported_run(
    steps: Sequence[dict[str, Any]],
    *,
    of: Workspace | None = None,
    original: bytes = b"{}",
    task_key: str = "",
    environment: str = "",
    **fields: Any,
) -> Trajectory:
    """A trajectory as an import stores it, including outlines and original. `steps` and `fields` are fields of the records; `fields` may include those of the outcome."""
    n = next(_number)
    outcome = {name: fields.pop(name) for name in records.names_of(records.Outcome) if name in fields}
    record = records.Trajectory(
        task=records.Task(key=task_key or f"task-{n}", instruction=f"Do thing {n}.", environment=environment),
        steps=[records.Step(**step) for step in steps],
        outcome=records.Outcome(**outcome),
        **{"id": f"run-{n}", **fields},
    )
    prepared = prepare(record, original)
    copy_in([prepared], Origin(workspace_id=(of or workspace()).pk, source="retrace"))
    return Trajectory.objects.get(pk=prepared.id)


def session(*, of: Workspace | None = None, messages: Sequence[dict[str, Any]] = (), **fields: Any) -> Session:
    """An open session in which the policy has answered with `messages`, one after the other."""
    home = of or workspace()
    created = open_session(workspace=home, policy=served_policy(of=home), by=None, **fields).session
    parent: Call | None = None
    for number, message in enumerate(messages):
        parent = call(of=created, message=message, parent=parent, number=number)
    return created


def call(*, of: Session, message: dict[str, Any], parent: Call | None = None, number: int = 0) -> Call:
    """A call in session `of` to which the policy answered `message`."""
    return Call.objects.create(
        session=of,
        parent=parent,
        status=Call.Status.OK,
        request={},
        messages=[{"role": "user", "content": "Where is the lamp?"}] if parent is None else [],
        reply={"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]},
        http_status=200,
        untrainable="The server doesn't return token ids.",
        body_digest=bytes([number]) * 16,
        chat_digest=bytes([number]) * 16,
        tools_digest=bytes(16),
        seconds=0.1,
        began_at=now(),
    )


def served_policy(*, of: Workspace | None = None, **fields: Any) -> Policy:
    """A policy that is served at an address where nothing listens."""
    home = of or workspace()
    endpoint = Endpoint.objects.create(workspace=home, name=f"server-{next(_number)}", base_url="http://127.0.0.1:9/v1")
    return policy(of=home, **{"kind": Policy.Kind.ENDPOINT, "location": "served", "endpoint": endpoint, **fields})


def traffic_split(*, of: Workspace | None = None, arms: Sequence[Policy] = (), **fields: Any) -> TrafficSplit:
    """A split over `arms` (two new ones by default), the first of which is champion of its environment."""
    n = next(_number)
    home = of or workspace()
    arms = arms or [served_policy(of=home), served_policy(of=home)]
    return create_split(
        **{
            "workspace": home,
            "name": f"split-{n}",
            "environment": f"environment-{n}",
            "champion": arms[0],
            "arms": [ArmPlan(arm, 1) for arm in arms],
            "by": user(),
            **fields,
        }
    )


def queue(*, of: Workspace | None = None, **fields: Any) -> Queue:
    n = next(_number)
    return Queue.objects.create(**{"workspace": of or workspace(), "name": f"queue-{n}", **fields})


def item(*, of: Queue | None = None, a: Trajectory | None = None, b: Trajectory | None = None, **fields: Any) -> Item:
    """A pair of trajectories of one task in queue `of`."""
    of = of or queue()
    a = a or trajectory(of=b.task if b else task(of=of.workspace))
    b = b or trajectory(of=a.task)
    return Item.objects.create(
        **{"queue": of, "position": next(_number), "task": a.task, "a": a, "b": b, "overlap": of.overlap, **fields}
    )


def annotator(*, of: Workspace | None = None, **fields: Any) -> Annotator:
    """A person's annotator; `kind` makes it a model or a rule."""
    n = next(_number)
    return Annotator.objects.create(
        **{"workspace": of or workspace(), "kind": Annotator.Kind.PERSON, "name": f"annotator-{n}", **fields}
    )


def preference(strength: int = 2, *, on: Item | None = None, by: Annotator | None = None, **fields: Any) -> Preference:
    """A judgment in favor of trajectory a (positive) or b (negative) of item `on`, with its closed assignment."""
    on = on or item()
    by = by or annotator(of=on.queue.workspace)
    a_was_left = fields.pop("a_was_left", True)
    held = Assignment.objects.create(
        workspace=on.queue.workspace,
        queue=on.queue,
        item=on,
        annotator=by,
        state=Assignment.State.JUDGED,
        a_is_left=a_was_left,
        leased_until=now() + timedelta(minutes=1),
    )
    return Preference.objects.create(
        **{
            "workspace": on.queue.workspace,
            "queue": on.queue,
            "item": on,
            "annotator": by,
            "assignment": held,
            "strength": strength,
            "a_was_left": a_was_left,
            "seconds": 1.0,
            **fields,
        }
    )
