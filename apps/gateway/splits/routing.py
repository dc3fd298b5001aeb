"""Routes sessions of a split to a policy, and fails over to the champion."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.utils.crypto import salted_hmac

from apps.accounts.models import ApiToken, User
from apps.common.ids import new_id
from apps.gateway.models import Call, Session
from apps.gateway.session_trajectories import first_asked, key_of
from apps.gateway.sessions import IDLE_SECONDS, NewSession, NotServed, create_session, redacted_task
from apps.gateway.splits.models import TrafficSplit, shares
from apps.gateway.splits.rendezvous import draw
from apps.gateway.targets import Target, target_of
from apps.policies import promotions
from apps.policies.models import Policy
from apps.redaction.rules import redacted

MAX_UNIT_LENGTH = 200
SAMPLING = ("temperature", "top_p", "top_k", "min_p")
"""Settings of a policy that are also parameters of a chat."""
logger = logging.getLogger(__name__)


class NobodyAnswers(NotServed):
    """The champion would have to answer, but isn't served."""

    field = "split"


class Route(NamedTuple):
    """The policy that answers a session, and the one drawn for it; None if the split is off."""

    policy: Policy
    target: Target
    drawn: Policy | None
    failover: str = ""


def route(split: TrafficSplit, unit: str) -> Route:
    """The current route for a session of this unit. Raises NobodyAnswers."""
    if not split.is_on:
        return Route(*_champion(split), None)
    arms = {arm.policy: share for arm, share in shares(list(split.arms.select_related("policy__endpoint"))).items()}
    chosen = draw(split.pk, {policy.pk: share for policy, share in arms.items()}, unit)
    policy = next(policy for policy in arms if policy.pk == chosen)
    target = target_of(policy)
    if target is not None:
        return Route(policy, target, policy)
    return Route(*_champion(split), policy, f"{policy} isn't served anywhere.")


def _champion(split: TrafficSplit) -> tuple[Policy, Target]:
    champion = promotions.champion(workspace=split.workspace, environment=split.environment)
    target = target_of(champion) if champion else None
    if champion is None or target is None:
        raise NobodyAnswers(
            f"{split} has nobody to answer: the champion of {split.environment} isn't served anywhere. Publish it, or turn the split on."
        )
    return champion, target


@transaction.atomic
def open_split_session(
    *,
    split: TrafficSplit,
    by: User | None,
    task: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    unit: str,
    idle_seconds: int = IDLE_SECONDS,
    token: ApiToken | None = None,
    **columns: Any,
) -> NewSession:
    """Open a session with the arm for `unit`, with that policy as it's served now. Raises NobodyAnswers.

    unit: from `unit_of`. columns: those of any session.
    """
    policy, target, drawn, failover = route(split, unit)
    takes_part = drawn is not None and split.experiment is not None
    return create_session(
        workspace=split.workspace,
        policy=policy,
        endpoint=target.endpoint,
        served_name=target.name,
        split=split,
        drawn=drawn,
        failover=failover,
        unit_digest=_unit_digest(split, unit),
        sampling=sampling_of(policy),
        experiment=split.experiment if takes_part else None,
        task=redacted_task(split.workspace, task),
        metadata=redacted(split.workspace_id, dict(metadata or {})),
        idle_seconds=idle_seconds,
        created_by=by,
        token=token,
        **columns,
    )


def _unit_digest(split: TrafficSplit, unit: str) -> bytes:
    """A keyed digest: units are often names of people, which could be guessed from an unkeyed one by whoever has the database."""
    key = salted_hmac("traffic split units", str(split.pk), algorithm="sha256").digest()
    return blake2b(unit.encode("utf-8", "surrogatepass"), digest_size=16, key=key).digest()


def unit_of(split: TrafficSplit, *, task: Mapping[str, Any] | None, unit: str) -> str:
    """The unit for which a split draws an arm. A session that doesn't name one is its own unit."""
    if task and split.unit == TrafficSplit.Unit.TASK and task.get("key"):
        return f"task {task.get('environment') or ''}\n{task['key']}"
    if split.unit == TrafficSplit.Unit.UNIT and unit:
        return f"unit {unit[:MAX_UNIT_LENGTH]}"
    return f"session {new_id()}"


def unit_in(metadata: object, user: object = None) -> str:
    """The unit in a request: `unit` in its metadata, or else its `user`."""
    metadata_unit = metadata.get("unit") if isinstance(metadata, dict) else None
    unit = metadata_unit if metadata_unit not in (None, "") else user
    return str(unit) if isinstance(unit, str | int) and not isinstance(unit, bool) else ""


def task_in(body: Mapping[str, Any]) -> dict[str, Any]:
    """The task of a session that names none, as its trajectory will have it: its first message. body: from `Dialect.session_fields`."""
    instruction = first_asked(body["messages"])
    return {"key": key_of(instruction), "environment": ""} if instruction else {}


def sampling_of(policy: Policy) -> dict[str, Any]:
    """The sampling settings that apply to every chat."""
    settings = policy.settings.get("sampling") or {}
    return {name: settings[name] for name in SAMPLING if settings.get(name) is not None}


@transaction.atomic
def fail_over(session_id: UUID, why: str) -> Session | None:
    """Move a session to the champion, if its arm can't be reached and has answered nothing; None if there is no other.

    The drawn arm stays recorded. Of two concurrent calls, the second gets the first one's result.
    """
    # In two queries: a single one that waits for the row lock would return the new row with its old policy.
    Session.objects.select_for_update().get(pk=session_id)
    session = Session.objects.select_related("split__workspace", "policy", "endpoint").get(pk=session_id)
    if session.failover:
        return session
    if session.split is None or not session.is_open or session.policy_id != session.drawn_id:
        return None
    if Call.objects.filter(session=session, status=Call.Status.OK).exists():
        return None  # a session stays with the policy that began it
    try:
        policy, target = _champion(session.split)
    except NobodyAnswers:
        return None
    if policy == session.policy:
        return None
    logger.warning("session %s fails over from %s to %s: %s", session.pk, session.policy, policy, why)
    session.policy, session.endpoint, session.served_name = policy, target.endpoint, target.name
    session.failover, session.sampling = why, sampling_of(policy)
    session.save(update_fields=["policy", "endpoint", "served_name", "failover", "sampling"])
    return session
