"""The life cycle of sessions: opened for an agent, given rewards, finished once, or abandoned when idle."""

from __future__ import annotations

import math
import secrets
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.authentication import digest_of
from apps.accounts.models import ApiToken, User, Workspace
from apps.common.broker import enqueue_seldom
from apps.common.workspace_turns import do_in_workspace_turns
from apps.gateway import live
from apps.gateway.models import Call, Path, Session, SessionEvent, expiry_after
from apps.gateway.session_trajectories import (
    MAX_CHARACTERS,
    leaves_of,
    outlines_of,
    paths_of,
    size_of,
    trajectory_of,
    whole_size_of,
    with_content,
)
from apps.gateway.targets import target_of
from apps.policies.models import Policy
from apps.redaction.rules import redacted
from apps.trajectories.imports.bulk_copy import Origin, copy_in
from apps.trajectories.imports.preparation import Prepared, prepare
from apps.trajectories.models import RolloutBatch, Trajectory
from apps.webhooks.events import EventType
from apps.webhooks.outbox import announce
from contract import jsontext
from contract.trajectory import Task
from contract.values import mapping

MARK = "rs_"
PREFIX_LENGTH = len(MARK) + 6
SOURCE = "gateway"
IDLE_SECONDS = 3600
MAX_IDLE_SECONDS = 7 * 24 * 3600
TURN_SECONDS = 5.0
"""How long idle sessions of one workspace are abandoned before those of the next."""
COUNT_TASK = "runners.count"
"""Counts the results of a batch of rollouts whose episodes are sessions."""
COUNT_SECONDS = 2
"""A batch is counted this often at most, since runners may finish hundreds of episodes a second."""

STORED_BYTES = 8 << 20
"""Total size of the paths of an ended session that are stored together."""


class SessionRefused(Exception):
    """What was wrong, and what to do. `field` is the one to change."""

    field = ""


class NotServed(SessionRefused):
    """The policy isn't served."""

    field = "policy"


class SessionOver(SessionRefused):
    """It has ended with a different outcome."""


class OtherEvent(SessionRefused):
    """The key was used for a different event."""

    field = "key"


class NoSuchCall(SessionRefused):
    """The session has no such call."""

    field = "call"


class NewSession(NamedTuple):
    """A session with its key, which exists only here and with the requester."""

    session: Session
    key: str


@transaction.atomic
def open_session(
    *,
    workspace: Workspace,
    policy: Policy,
    by: User | None,
    task: Mapping[str, Any] | None = None,
    group: str = "",
    attempt: int | None = None,
    agent: str = "",
    metadata: Mapping[str, Any] | None = None,
    max_calls: int | None = None,
    max_tokens: int | None = None,
    idle_seconds: int = IDLE_SECONDS,
    name: str = "",
    is_guessed: bool = False,
    token: ApiToken | None = None,
    sampling: Mapping[str, Any] | None = None,
    rollout_batch: RolloutBatch | None = None,
) -> NewSession:
    """Open a session for `policy` as it's served now: later publications only affect later sessions. Raises NotServed.

    sampling: applies to all calls, overriding the agent's. rollout_batch: the batch whose episode it plays.
    """
    target = target_of(policy)
    if target is None:
        raise NotServed(
            f"{policy} isn't served anywhere. Publish it on a server first, or name a policy that is a served model."
        )
    return create_session(
        workspace=workspace,
        policy=policy,
        endpoint=target.endpoint,
        served_name=target.name,
        task=redacted_task(workspace, task),
        group=group,
        attempt=attempt,
        agent=agent,
        name=name,
        is_guessed=is_guessed,
        metadata=redacted(workspace.pk, dict(metadata or {})),
        max_calls=max_calls,
        max_tokens=max_tokens,
        idle_seconds=idle_seconds,
        created_by=by,
        token=token,
        sampling=dict(sampling or {}),
        rollout_batch=rollout_batch,
    )


def open_training_session(
    *,
    workspace: Workspace,
    address: str,
    name: str,
    by: User | None,
    token: ApiToken | None,
    task: Mapping[str, Any],
    attempt: int,
    agent: str,
    max_calls: int,
    idle_seconds: int,
) -> NewSession:
    """Open a session for weights in training, served at `address` under `name`."""
    return create_session(
        workspace=workspace,
        training_address=address,
        training_name=name,
        served_name="policy",
        created_by=by,
        token=token,
        task=dict(task),
        attempt=attempt,
        agent=agent,
        max_calls=max_calls,
        idle_seconds=idle_seconds,
    )


def create_session(*, idle_seconds: int = IDLE_SECONDS, **columns: Any) -> NewSession:
    """Create the row with its key. `columns` determine what acts."""
    key = MARK + secrets.token_urlsafe(32)
    session = Session.objects.create(
        **columns,
        key_digest=digest_of(key),
        key_prefix=key[:PREFIX_LENGTH],
        idle_seconds=idle_seconds,
        expires_at=expiry_after(idle_seconds),
    )
    return NewSession(session, key)


def redacted_task(workspace: Workspace, task: Mapping[str, Any] | None) -> dict[str, Any]:
    """The task as it may be stored. Its identity, environment and key, isn't redacted."""
    names = {name: value for name, value in (task or {}).items() if name in ("environment", "key")}
    return {**redacted(workspace.pk, dict(task or {})), **names}


def renew_session(*, session: Session) -> None:
    """Extend a session whose agent is busy without making calls. Raises SessionOver."""
    if not Session.objects.open().filter(pk=session.pk).update(expires_at=expiry_after(session.idle_seconds)):
        session.refresh_from_db(fields=["state"])
        raise SessionOver(f"This session is {session.state}.")


@transaction.atomic
def abandon_session(*, session: Session, problem: str = "") -> None:
    """End a session with an unknown outcome. Idempotent. Raises SessionOver."""
    locked = Session.objects.select_for_update().get(pk=session.pk)
    if locked.state == Session.State.ABANDONED:
        return
    if not locked.is_open:
        raise SessionOver("This session is finished; its outcome can't be changed.")
    locked.problem = redacted(locked.workspace_id, problem)
    _abandon(locked)


def _abandon(locked: Session) -> None:
    locked.state, locked.ended_at = Session.State.ABANDONED, now()
    locked.save()
    store_trajectories(locked)
    _show_end(locked)
    _announce(EventType.SESSION_ABANDONED, locked)


def _show_end(session: Session) -> None:
    """Notify viewers of its page."""
    transaction.on_commit(lambda: live.notify_viewers(session.pk), robust=True)


def _announce(event: EventType, session: Session) -> None:
    """Notify webhooks of an end, except for those of training runs and rollouts, which number in the thousands."""
    if not session.is_of_training and session.rollout_batch_id is None:
        announce(
            event,
            workspace_id=session.workspace_id,
            name=session.title,
            page=reverse("gateway:session", args=[session.pk]),
            id=str(session.pk),
            policy=str(session.policy_id),
            success=session.success,
            reward=session.reward,
        )


@transaction.atomic
def record_event(
    *, session: Session, key: str, type: str, name: str = "", value: Any = None, call_id: UUID | None = None
) -> SessionEvent:
    """Record a reward or another event of an open session or one of its calls. Idempotent by key.

    Raises SessionOver, NoSuchCall, OtherEvent.
    """
    locked = Session.objects.select_for_update().get(pk=session.pk)
    name, value = redacted(session.workspace_id, [name, value])
    values = {"type": type, "name": name, "value": value, "call_id": call_id}
    before = SessionEvent.objects.filter(session=session, key=key).first()
    if before is not None:
        if any(getattr(before, field) != value for field, value in values.items()):
            raise OtherEvent(f"{key!r} was used for another event of this session. Give each event a key of its own.")
        return before
    if not locked.is_open:
        raise SessionOver(f"This session is {locked.state}; nothing can be added to it.")
    if call_id is not None and not Call.objects.filter(session=session, pk=call_id).exists():
        raise NoSuchCall(f"This session has no call {call_id}.")
    Session.objects.filter(pk=session.pk).update(expires_at=expiry_after(locked.idle_seconds))
    return SessionEvent.objects.create(session=session, key=key, **values)


@transaction.atomic
def finish_session(
    *,
    session: Session,
    success: bool | None = None,
    reward: float | None = None,
    rewards: Mapping[str, float] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Session:
    """End a session with its outcome; its calls become a trajectory. Idempotent.

    The default `reward` is the sum of the rewards recorded for the whole session. Raises SessionOver.
    """
    locked = Session.objects.select_for_update().get(pk=session.pk)
    if reward is None:
        reward = _noted_reward(locked)
    names, facts = redacted(session.workspace_id, [list(rewards or {}), dict(metadata or {})])
    rewards_by_name = dict(zip(names, (rewards or {}).values(), strict=True))
    outcome = {"success": success, "reward": reward, "rewards": {**locked.rewards, **rewards_by_name}}
    if not locked.is_open:
        if locked.state == Session.State.FINISHED and all(getattr(locked, name) == outcome[name] for name in outcome):
            return locked
        raise SessionOver(f"This session is {locked.state} already; its outcome can't be changed.")
    for name, value in outcome.items():
        setattr(locked, name, value)
    locked.metadata = {**locked.metadata, **facts}
    locked.state, locked.ended_at = Session.State.FINISHED, now()
    locked.save()
    store_trajectories(locked)
    if locked.rollout_batch_id is not None:
        enqueue_seldom(COUNT_TASK, str(locked.rollout_batch_id), seconds=COUNT_SECONDS)
    _show_end(locked)
    _announce(EventType.SESSION_FINISHED, locked)
    return locked


def abandon_idle() -> None:
    """Abandon sessions that were idle for too long. Their outcome is unknown, which isn't a reward of 0.

    Each workspace gets a few seconds: a session may become a thousand trajectories, and a workspace may have thousands of sessions.
    """
    idle = Session.objects.idle_at(now())
    do_in_workspace_turns(idle, lambda session: abandon(session.pk), name="idle-sessions", seconds=TURN_SECONDS)


@transaction.atomic
def abandon(session_id: UUID) -> None:
    """Abandon a session if it's still idle."""
    session = Session.objects.select_for_update(skip_locked=True).idle_at(now()).filter(pk=session_id).first()
    if session is not None:
        _abandon(session)


@transaction.atomic
def store_trajectories(session: Session) -> None:
    """Store a trajectory for each path of an ended session that has none yet. Called again, it adds late calls.

    Training runs keep their own sessions' results. An episode of rollouts without a reported outcome isn't stored: it's played again.
    """
    if session.is_of_training or (session.rollout_batch_id and session.state == Session.State.ABANDONED):
        return
    calls = outlines_of(session)
    events = list(session.events.all())
    stored_leaves = set(Path.objects.filter(session=session).values_list("leaf_id", flat=True))
    paths = paths_of(calls)
    main = paths[0] if paths else []
    if size_of(main) > MAX_CHARACTERS:
        _note_problem(session, f"Its chat has more than {MAX_CHARACTERS >> 20} MiB, so it didn't become a trajectory.")
        return
    for together in _path_batches([path for path in paths if path[-1].pk not in stored_leaves], main):
        is_main = together[0] is main
        whole = None if is_main else _task_as_stored(session)
        prepared = []
        for path in with_content(together):
            part_of = None if path[0].pk == main[0].pk else whole
            record = trajectory_of(session, path, events, is_main=is_main, part_of=part_of)
            try:
                prepared.append((path[-1], prepare(record, jsontext.dumps(record.to_json()))))
            except jsontext.UnreadableJSON as problem:  # one level deeper than its requests were
                _note_problem(session, f"A path of {len(path)} calls couldn't become a trajectory: {problem}")
        if is_main and prepared:
            Path.objects.filter(session=session, is_main=True).update(is_main=False)
        # One trajectory per episode, so that those of two policies can be paired; late ones don't belong to the batch.
        batch_id = session.rollout_batch_id if is_main and not stored_leaves else None
        _store_paths(session, prepared, is_main=is_main, rollout_batch_id=batch_id)
    if left_out := len(leaves_of(calls)) - len(paths):
        _note_problem(
            session, f"Its chat branches too often: {left_out:,} of its shorter paths didn't become trajectories."
        )
    _mark_branches(session, paths)


def _task_as_stored(session: Session) -> Task:
    """Its task: the workspace may have known it already, and the first record of a task defines it."""
    columns = (f"trajectory__task__{name}" for name in ("environment", "key", "held_out"))
    stored = Path.objects.filter(session=session, is_main=True).values_list(*columns).first()
    if stored is None:  # its main path couldn't become a trajectory
        named = mapping(session.task)
        return Task(key=str(named.get("key") or session.pk), held_out=named.get("held_out") is True)
    environment, key, held_out = stored
    return Task(environment=environment, key=key, held_out=held_out)


def _path_batches(paths: Sequence[list[Call]], main: list[Call]) -> Iterator[list[list[Call]]]:
    """The main path alone, and of the others as many together as have STORED_BYTES, so that neither thousands of queries nor hundreds of megabytes are needed."""
    together: list[list[Call]] = []
    size = 0
    for path in paths:
        together.append(path)
        size += whole_size_of(path)
        if path is main or size > STORED_BYTES:
            yield together
            together, size = [], 0
    if together:
        yield together


def _note_problem(session: Session, problem: str) -> None:
    Session.objects.filter(pk=session.pk).update(problem=problem)


def _store_paths(
    session: Session,
    paths: Sequence[tuple[Call, Prepared]],
    *,
    is_main: bool = False,
    rollout_batch_id: UUID | None = None,
) -> None:
    """Store paths, given as last call and trajectory. In bulk: individually, ten statements for each of a thousand delayed the request."""
    origin = Origin(session.workspace_id, SOURCE, rollout_batch_id=rollout_batch_id, policy_id=session.policy_id)
    copy_in([prepared for _, prepared in paths], origin)
    Path.objects.bulk_create(
        Path(session=session, leaf=leaf, trajectory_id=prepared.id, is_main=is_main) for leaf, prepared in paths
    )


def _mark_branches(session: Session, paths: list[list[Call]]) -> None:
    """Mark paths that diverge from the main one as branches of its trajectory."""
    trajectories = dict(Path.objects.filter(session=session).values_list("leaf_id", "trajectory_id"))
    paths = [path for path in paths if path[-1].pk in trajectories]
    if len(paths) < 2:
        return
    main = [call.pk for call in paths[0]]
    branches: dict[int, list[UUID]] = defaultdict(list)
    for path in paths[1:]:
        shared = sum(node.pk == main_pk for node, main_pk in zip(path, main, strict=False))
        branches[shared].append(trajectories[path[-1].pk])
    branches.pop(0, None)
    for shared, ids in branches.items():
        Trajectory.objects.filter(pk__in=ids, parent=None).update(
            parent_id=trajectories[paths[0][-1].pk], branch_step=shared
        )


def _noted_reward(session: Session) -> float | None:
    noted = session.events.filter(type=SessionEvent.Type.REWARD, call=None).values_list("value", flat=True)
    values = [float(value) for value in noted if value is not None]
    return math.fsum(values) if values else None
