"""Queries about sessions for the pages and the API."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Count, OuterRef, Q, Subquery, Sum
from django.utils.timezone import now

from apps.accounts.models import Membership, Workspace
from apps.common.compiled_queries import CompiledQuery
from apps.common.ids import first_id_at
from apps.gateway.models import Call, Join, Path, Session, SessionQuerySet
from apps.gateway.session_trajectories import (
    MAX_CHARACTERS,
    outlines_of,
    paths_of,
    size_of,
    trajectory_of,
    with_content,
    with_tokens,
)
from apps.gateway.spending.costs import Cost, cost_in, sums
from contract.episodes import PlayedEpisode
from contract.trajectory import Trajectory as TrajectoryRecord

HEAVY = tuple(f"trajectory__{name}" for name in ("tools", "closing", "info"))
"""Columns of a path's trajectory that its session's page doesn't show. There may be a thousand."""
MAX_OTHERS = 64
"""Maximum number of paths of a training run's session to learn from besides the main one, the longest first."""


class Counts(NamedTuple):
    """Counts of a session's calls."""

    answered: int
    failed: int
    retried: int
    seams: int
    """Calls that repeat the chat with different tokens: training treats them as new beginnings."""
    bridged: int
    """Calls that would have had a seam if their prompts hadn't been composed of the sampled tokens."""
    untrainable: int
    redacted: int
    """Answered calls that were partly redacted."""
    tokens: int


def sessions_for_list(member: Membership) -> SessionQuerySet:
    """The columns of a list row."""
    main = Path.objects.filter(session=OuterRef("pk"), is_main=True).values("trajectory")[:1]
    return (
        Session.objects.visible_to(member)
        .select_related("policy", "split")
        .annotate(
            call_count=Count("calls", filter=Q(calls__status=Call.Status.OK)),
            trajectory_id=Subquery(main),
            **sums("calls__"),
        )
    )


def session_for_list(member: Membership, session_id: UUID) -> Session | None:
    """A row of `sessions_for_list`. Agents and runners end sessions many times a second, so its query is compiled once."""
    if member.role < Session.visible_from:
        return None
    return _LISTED.first(workspace=member.workspace_id, pk=session_id)


def _listed(workspace: UUID, pk: UUID) -> SessionQuerySet:
    return sessions_for_list(Membership(workspace_id=workspace, role=Session.visible_from)).filter(pk=pk)


_LISTED = CompiledQuery(_listed, workspace=UUID, pk=UUID)


def cost_of(session: Session) -> Cost:
    """Total cost of its calls."""
    return cost_in(Call.objects.filter(session=session).aggregate(**sums()))


def spent_since(since: datetime, workspace_id: UUID, session_id: UUID | None = None) -> Cost:
    """Cost of a workspace's calls, or of one of its sessions', stored since that time."""
    calls = Call.objects.filter(session__workspace=workspace_id, pk__gte=first_id_at(since))
    if session_id is not None:
        calls = calls.filter(session=session_id)
    return cost_in(calls.aggregate(**sums()))


def spent_today(workspace: Workspace) -> Cost:
    """Cost since 0:00 UTC."""
    midnight = now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return spent_since(midnight, workspace.pk)


def counts_of(session: Session) -> Counts:
    """The counts, in one query."""
    ok = Q(status=Call.Status.OK)
    totals = Call.objects.filter(session=session).aggregate(
        answered=Count("pk", filter=ok),
        failed=Count("pk", filter=~ok),
        retried=Count("pk", filter=Q(is_retry=True)),
        seams=Count("pk", filter=ok & Q(join=Join.MESSAGES)),
        bridged=Count("pk", filter=ok & Q(is_bridged=True)),
        untrainable=Count("pk", filter=ok & ~Q(untrainable="")),
        redacted=Count("pk", filter=ok & Q(is_redacted=True)),
        read=Sum("prompt_tokens", default=0),
        written=Sum("completion_tokens", default=0),
    )
    tokens = totals.pop("read") + totals.pop("written")
    return Counts(**totals, tokens=tokens)


def steps_so_far(session: Session) -> int:
    """Length of the main path, from light columns only: it's queried after each call of a session with viewers."""
    calls = Call.objects.filter(session=session).order_by("id").only("status", "parent", "body_digest", "is_retry")
    return max(map(len, paths_of(calls)), default=0)


def record_of(session: Session) -> TrajectoryRecord:
    """The main path so far."""
    return _record(session, paths_of(outlines_of(session)))


def _record(session: Session, paths: Sequence[list[Call]]) -> TrajectoryRecord:
    """The main path, up to a size limit that only hostile sessions exceed."""
    main = paths[0] if paths else []
    sizes = accumulate(size_of([call]) for call in main)
    [held] = with_content([[call for call, size in zip(main, sizes, strict=True) if size <= MAX_CHARACTERS]])
    return trajectory_of(session, held, list(session.events.all()))


def episode_of(session: Session) -> PlayedEpisode | None:
    """What a training run learns from one of its finished sessions: the main path, and the tokens of up to MAX_OTHERS others. None without steps."""
    paths = paths_of(outlines_of(session))
    record = _record(session, paths)
    return PlayedEpisode(record, tuple(with_tokens(paths[1 : 1 + MAX_OTHERS]))) if record.steps else None


def progress_context(session: Session) -> dict[str, Any]:
    """The context of a session's progress partial."""
    stored = Path.objects.filter(session=session).select_related("trajectory")
    paths = list(stored.defer(*HEAVY).order_by("-is_main", "leaf_id"))
    return {
        "session": session,
        "counts": counts_of(session),
        "cost": cost_of(session),
        "steps_so_far": steps_so_far(session),
        "trajectory": next((path.trajectory for path in paths if path.is_main), None),
        "feedback": session.feedback.order_by("-pk"),
        "others": [path.trajectory for path in paths if not path.is_main],
    }
