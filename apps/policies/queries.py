"""What the pages and the API read about policies. Runs and rollouts are reached through their relations: those apps know this one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce

from apps.accounts.models import Membership
from apps.policies.models import Policy, Promotion, Publication

DEEPEST = 30
MOST_DESCENDANTS = 200
SHOWN_ROLLOUTS = 20
NOWHERE = Value(UUID(int=0))
"""Stands for no server: in SQL nothing equals NULL."""
_DONE_HELD_OUT = Q(rollouts__config__tasks__split="held_out")


def policies_for_list(member: Membership) -> QuerySet[Policy]:
    """What a row of the list shows: its parent, the run that made it, how it did on held-out tasks."""
    return (
        Policy.objects.visible_to(member)
        .filter(archived_at=None)
        .select_related("base", "made_by", "endpoint")
        .defer("made_by__config", "made_by__failure", "made_by__report")
        .annotate(
            held_out_played=Sum("rollouts__finished", filter=_DONE_HELD_OUT, default=0),
            held_out_succeeded=Sum("rollouts__succeeded", filter=_DONE_HELD_OUT, default=0),
        )
    )


def champions_of(member: Membership) -> dict[Any, list[str]]:
    """The environments of which a policy is champion, by the policy's id."""
    found: dict[Any, list[str]] = {}
    for promotion in Promotion.objects.visible_to(member).current():
        found.setdefault(promotion.policy_id, []).append(promotion.environment)
    return found


@dataclass(frozen=True)
class Ancestor:
    """A policy, the run that made it, and what that run was trained on."""

    policy: Policy
    run: Any
    version: Any


def ancestors_of(policy: Policy) -> list[Ancestor]:
    """The policy and everything that it descends from, youngest first. One query a generation; generations are few."""
    chain: list[Ancestor] = []
    current: Policy | None = policy
    while current is not None and len(chain) < DEEPEST:
        run = getattr(current, "made_by", None)
        chain.append(Ancestor(current, run, run.version if run else None))
        current = _with_origin().filter(pk=current.base_id).first() if current.base_id else None
    return chain


@dataclass(frozen=True)
class Descendant:
    """A policy that was made from another, and how many generations later."""

    policy: Policy
    depth: int


def descendants_of(policy: Policy) -> list[Descendant]:
    """Everything that was made from it, each below its parent. One query a generation."""
    children: dict[Any, list[Policy]] = {}
    generation, known = [policy.pk], 0
    for _ in range(DEEPEST):
        found = list(_with_origin().filter(base__in=generation).order_by("pk")[: MOST_DESCENDANTS - known])
        for child in found:
            children.setdefault(child.base_id, []).append(child)
        known += len(found)
        generation = [child.pk for child in found]
        if not generation or known >= MOST_DESCENDANTS:
            break
    return list(_below(policy.pk, children, 0))


def _below(parent: Any, children: dict[Any, list[Policy]], depth: int) -> list[Descendant]:
    rows: list[Descendant] = []
    for child in children.get(parent, []):
        rows.append(Descendant(child, depth))
        rows += _below(child.pk, children, depth + 1)
    return rows


def publications_of(policy: Policy) -> QuerySet[Publication]:
    """Where it was published, newest first, as its page shows it. `depth` says how many policies one could go back through."""
    place = Coalesce(OuterRef("endpoint"), NOWHERE)
    beside = Publication.objects.alias(place=Coalesce("endpoint", NOWHERE)).filter(
        workspace=OuterRef("workspace"), name=OuterRef("name"), place=place, live_at__isnull=False
    )
    # A rollback takes what was rolled back off, and stands for what was before it.
    gone, lived = (Count("pk", filter=Q(is_rollback=was)) for was in (True, False))
    depth = beside.order_by().values("name").annotate(depth=lived - gone).values("depth")
    shown = policy.publications.select_related("endpoint", "by", "policy").order_by("-id")
    return shown.annotate(depth=Subquery(depth))[:SHOWN_ROLLOUTS]


def policy_for_page(member: Membership) -> QuerySet[Policy]:
    """A policy with everything that its page names."""
    return _with_origin().visible_to(member)  # type: ignore[attr-defined, no-any-return]  # it is PolicyQuerySet


def _with_origin() -> QuerySet[Policy]:
    return Policy.objects.select_related("base", "endpoint", "made_by__version__dataset", "made_by__created_by").defer(
        "made_by__config",
        "made_by__failure",
        "made_by__version__card",
        "made_by__version__recipe",
        "made_by__version__files",
    )
