"""The life cycle of sessions: opened for an agent, given rewards, finished once, or abandoned when idle."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
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
from apps.gateway.models import Call, Session, SessionEvent, expiry_after
from apps.gateway.targets import target_of
from apps.gateway.trajectory_storage import store_trajectories
from apps.policies.models import Policy
from apps.redaction.rules import redacted
from apps.trajectories.models import RolloutBatch
from apps.webhooks.events import EventType
from apps.webhooks.outbox import announce

MARK = "rs_"
PREFIX_LENGTH = len(MARK) + 6
IDLE_SECONDS = 3600
MAX_IDLE_SECONDS = 7 * 24 * 3600
TURN_SECONDS = 5.0
"""How long idle sessions of one workspace are abandoned before those of the next."""
COUNT_TASK = "runners.count"
"""Counts the results of a batch of rollouts whose episodes are sessions."""
COUNT_SECONDS = 2
"""A batch is counted this often at most, since runners may finish hundreds of episodes a second."""


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
    name, shown = redacted(session.workspace_id, [name, value])
    if type != SessionEvent.Type.REWARD:  # a reward is a number, whose digits may look like those of a payment card
        value = shown
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


def _noted_reward(session: Session) -> float | None:
    noted = session.events.filter(type=SessionEvent.Type.REWARD, call=None).values_list("value", flat=True)
    values = [float(value) for value in noted if isinstance(value, int | float)]  # an archive may have any
    return math.fsum(values) if values else None
