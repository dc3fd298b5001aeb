"""Implicit sessions: calls with an API token, grouped by the session name that the agent sends, or by their trace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q

from apps.accounts.authentication import digest_of, note_use
from apps.accounts.models import ApiToken, Membership, Role
from apps.common.text_encoding import is_storable
from apps.gateway.models import Session
from apps.gateway.refusals import BadRequest, NoSession, NoSuchModel
from apps.gateway.sessions import NotServed, open_session
from apps.gateway.splits.models import TrafficSplit
from apps.gateway.splits.routing import open_split_session, task_in, unit_in, unit_of
from apps.gateway.targets import answering
from apps.policies.models import Policy

MAX_NAME_LENGTH = 200
MAX_MODELS = 1000
TRACE_PARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
"""W3C trace context: version, trace, parent, and flags. An all-zero trace id is invalid."""


class SessionName(NamedTuple):
    """The name by which a call is assigned to a session."""

    text: str
    is_guessed: bool
    """It's a trace id; a trace may contain more than one episode."""


def session_name(session_id: str, trace_parent: str) -> SessionName:
    """From the headers X-Session-Id and traceparent. Raises BadRequest."""
    if len(session_id) > MAX_NAME_LENGTH:
        raise BadRequest(f"X-Session-Id has {len(session_id):,} characters; at most {MAX_NAME_LENGTH} are allowed.")
    if session_id:
        return SessionName(session_id, is_guessed=False)
    if trace := TRACE_PARENT.fullmatch(trace_parent.strip().lower()):
        return SessionName(trace[1], is_guessed=True)
    raise BadRequest(
        "With an API token, say which episode a call belongs to: send the same X-Session-Id with all calls of an episode, or a traceparent. "
        "Or open a session with POST /api/v1/sessions and use its key."
    )


def member_with(token: str) -> Membership:
    """The token's member. Raises NoSession."""
    tokens = ApiToken.objects.usable().filter(membership__user__is_active=True, membership__role__gte=Role.RESEARCHER)
    token_row = (
        tokens.filter(digest=digest_of(token)).select_related("membership__workspace", "membership__user").first()
    )
    if token_row is None:
        raise NoSession("This token is unknown, revoked, or expired, or isn't a researcher's.")
    note_use(token_row)
    return token_row.membership


def named_session(token: str, name: SessionName, body: Mapping[str, Any]) -> str:
    """The key digest of the open session with that name, which is opened if there is none. Raises NoSession, NoSuchModel.

    body: the session fields of a request, from `Dialect.session_fields`; its `model` names a policy or a split.
    """
    member = member_with(token)
    model = _storable(body.get("model"))
    split = TrafficSplit.objects.visible_to(member).filter(name=model).select_related("workspace").first()
    policy = None if split else _policy(member, model)
    open_ones = Session.objects.open().filter(workspace=member.workspace_id, split=split, name=name.text)
    digest = (open_ones.filter(policy=policy) if policy else open_ones).values_list("key_digest", flat=True)
    if stored := digest.first():
        return stored
    columns: dict[str, Any] = {"by": member.user, "name": name.text, "is_guessed": name.is_guessed}
    try:
        with transaction.atomic():
            if policy:
                opened = open_session(workspace=member.workspace, policy=policy, **columns)
            else:
                assert split is not None
                unit = unit_in(body.get("metadata"), body.get("user"))
                opened = open_split_session(split=split, unit=unit_of(split, task=task_in(body), unit=unit), **columns)
    except NotServed as refusal:
        raise NoSuchModel(str(refusal)) from None
    except IntegrityError:  # a concurrent call opened it first
        return digest.get()
    return opened.session.key_digest


def models_of(token: str) -> list[TrafficSplit | Policy]:
    """The models that a token may call: splits, and served policies. Raises NoSession."""
    member = member_with(token)
    splits = TrafficSplit.objects.visible_to(member).order_by("-id")[:MAX_MODELS]
    return [*splits, *_served_policies(member)]


def _served_policies(member: Membership) -> list[Policy]:
    return list(answering(member).order_by("-id")[:MAX_MODELS])


def _storable(model: object) -> str:
    return model if isinstance(model, str) and len(model) <= MAX_NAME_LENGTH and is_storable(model) else ""


def _policy(member: Membership, name: str) -> Policy:
    matches = Q(name=name)
    with suppress(ValueError):
        matches |= Q(pk=UUID(name))
    policy = Policy.objects.visible_to(member).acting().filter(matches).select_related("endpoint").first()
    if policy is None:
        raise NoSuchModel(
            f"There is no policy {name!r} in this workspace that can act. With an API token, `model` names the policy, or a traffic split."
        )
    return policy
