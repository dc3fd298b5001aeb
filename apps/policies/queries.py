"""Queries on policies for the pages and the API. Runs and rollouts are reached through relations, since those apps depend on this one."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce

from apps.accounts.models import Membership
from apps.common.sorting import by_age, by_name
from apps.policies.models import Policy, PolicyQuerySet, Promotion, Publication

SHOWN_ROLLOUTS = 20
POLICY_COLUMNS = (by_name("Policy", "name"), by_age("Added"))
NOWHERE = Value(UUID(int=0))
"""Stands for no server, since NULL equals nothing in SQL."""
_DONE_HELD_OUT = Q(rollouts__config__tasks__split="held_out")


def policies_for_list(member: Membership) -> PolicyQuerySet:
    """The columns of the policy list: parent, training run, and success on held-out tasks."""
    return (
        Policy.objects.visible_to(member)
        .select_related("base", "made_by", "endpoint")
        .defer("made_by__config", "made_by__failure", "made_by__report")
        .annotate(
            held_out_played=Sum("rollouts__finished", filter=_DONE_HELD_OUT, default=0),
            held_out_succeeded=Sum("rollouts__succeeded", filter=_DONE_HELD_OUT, default=0),
        )
    )


def champions_of(member: Membership) -> dict[Any, list[str]]:
    """The environments in which each policy is champion, keyed by policy id."""
    environments: dict[Any, list[str]] = {}
    for promotion in Promotion.objects.visible_to(member).current():
        environments.setdefault(promotion.policy_id, []).append(promotion.environment)
    return environments


class Publications(NamedTuple):
    """What the page of a policy shows of its publications."""

    publications: list[Publication]
    """Newest first. `depth` is the number of policies that a rollback could go back through."""
    is_publishing: bool
    """Whether any of them is under way: one to another server may have begun before the newest."""


def publications_of(policy: Policy) -> Publications:
    """The publications of a policy, for its page; one query."""
    place = Coalesce(OuterRef("endpoint"), NOWHERE)
    same_alias = Publication.objects.alias(place=Coalesce("endpoint", NOWHERE)).filter(
        workspace=OuterRef("workspace"), name=OuterRef("name"), place=place, live_at__isnull=False
    )
    # A rollback removes the publication it undoes and stands for the one before that.
    rollbacks, lived = (Count("pk", filter=Q(is_rollback=was)) for was in (True, False))
    depth = same_alias.order_by().values("name").annotate(depth=lived - rollbacks).values("depth")
    shown = policy.publications.select_related("endpoint", "by", "policy").order_by("-id")
    publications = list(shown.annotate(depth=Subquery(depth))[:SHOWN_ROLLOUTS])
    return Publications(publications, any(publication.is_active for publication in publications))


class InEnvironment(NamedTuple):
    """A policy's trajectories in one environment, and how those that it began itself ended. Branches count toward no outcome."""

    environment: str
    trajectories: int
    succeeded: int
    failed: int
    undecided: int


def trajectories_by_environment(policy: Policy) -> list[InEnvironment]:
    """A policy's trajectories of any source, by environment; one query. They're reached through a relation, since their app depends on this one."""
    ended = {
        name: Count("trajectories", filter=Q(trajectories__parent=None, trajectories__success=success))
        for name, success in (("succeeded", True), ("failed", False), ("undecided", None))
    }
    environment = "trajectories__task__environment"
    rows = (
        Policy.objects.filter(pk=policy.pk, trajectories__isnull=False)
        .order_by(environment)
        .values(environment)
        .annotate(total=Count("trajectories"), **ended)
    )
    return [InEnvironment(*row) for row in rows.values_list(environment, "total", *ended)]


def policy_for_page(member: Membership) -> QuerySet[Policy]:
    """A policy with everything its page shows."""
    return Policy.objects.visible_to(member).select_related("endpoint", "made_by")
