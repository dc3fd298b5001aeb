"""Results of a split's arms: draws, outcomes, and performance of their servers. Based on the newest sessions, not on all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Aggregate, Avg, Count, FloatField, IntegerField, Q
from django.db.models.functions import Cast

from apps.common.proportions import mismatch, wilson
from apps.gateway.models import Call, Session, SessionQuerySet
from apps.gateway.spending.costs import Cost, cost_in, sums
from apps.gateway.splits.models import Arm, TrafficSplit, shares
from apps.policies.models import Policy

MAX_SESSIONS = 20_000
ALARM = 0.001
"""Below this p-value the observed shares don't match the intended ones. Far below 5 %, since it's looked at often."""


class Outcomes(NamedTuple):
    """Success of the sessions that an arm was drawn for, whatever answered them; 95 % Wilson interval over units."""

    sessions: int
    units: int
    value: float
    low: float
    high: float


class ArmFigures(NamedTuple):
    """Figures of one policy of a split."""

    policy: Policy
    arm: Arm | None
    """None if it's no longer an arm."""
    share: float
    sessions: int
    failed_over: int
    abandoned: int
    outcomes: Outcomes | None
    calls: int
    """Calls to its own server; those of sessions that failed over are the champion's."""
    errors: int
    p50: float | None
    """Seconds to the end of the reply."""
    p95: float | None
    cost: Cost
    """Cost of those calls, and of those cancelled by the agent."""


class SplitFigures(NamedTuple):
    """Figures of the newest sessions, up to MAX_SESSIONS."""

    arms: list[ArmFigures]
    sessions: int
    off_sessions: int
    """Sessions without a drawn arm, because the split was off."""
    is_cut: bool
    mismatch: float | None
    """The p-value of the shares observed since the arms were changed; None if there are too few sessions."""

    @property
    def is_alarming(self) -> bool:
        return self.mismatch is not None and self.mismatch < ALARM


class _Percentile(Aggregate):
    function = "percentile_cont"
    template = "percentile_cont(%(fraction)s) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()


def figures_of(split: TrafficSplit) -> SplitFigures:
    """The figures, in five queries regardless of the number of arms."""
    arms = {arm.policy_id: arm for arm in split.arms.select_related("policy").order_by("pk")}
    share = shares(list(arms.values()))
    newest = list(Session.objects.filter(split=split).order_by("-id").values_list("pk", flat=True)[: MAX_SESSIONS + 1])
    among = Session.objects.filter(split=split, pk__gte=newest[:MAX_SESSIONS][-1]) if newest else Session.objects.none()
    drawn: dict[Any, dict[str, Any]] = {
        row["drawn"]: dict(row)
        for row in among.values("drawn")
        .annotate(
            count=Count("pk"),
            failed_over=Count("pk", filter=~Q(failover="")),
            abandoned=Count("pk", filter=Q(state=Session.State.ABANDONED)),
        )
        .order_by()
    }
    off = drawn.pop(None, {"count": 0})["count"]
    former = list(Policy.objects.filter(pk__in=drawn.keys() - arms.keys()).order_by("pk"))
    policies = {pk: arm.policy for pk, arm in arms.items()} | {policy.pk: policy for policy in former}
    calls, outcomes = _calls(among), _outcomes(among)
    nothing: dict[str, Any] = {"count": 0, "failed_over": 0, "abandoned": 0, "errors": 0, "p50": None, "p95": None}
    arm_figures = []
    for pk in policies:
        row, answered, arm = drawn.get(pk, nothing), calls.get(pk, nothing), arms.get(pk)
        arm_figures.append(
            ArmFigures(
                policy=policies[pk],
                arm=arm,
                share=share[arm] if arm else 0.0,
                sessions=row["count"],
                failed_over=row["failed_over"],
                abandoned=row["abandoned"],
                outcomes=outcomes.get(pk),
                calls=answered["count"],
                errors=answered["errors"],
                p50=answered["p50"],
                p95=answered["p95"],
                cost=cost_in(answered),
            )
        )
    return SplitFigures(
        arms=arm_figures,
        sessions=min(len(newest), MAX_SESSIONS),
        off_sessions=off,
        is_cut=len(newest) > MAX_SESSIONS,
        mismatch=_mismatch(among, split.arms_changed_at, {pk: share[arm] for pk, arm in arms.items()}),
    )


def _calls(among: SessionQuerySet) -> dict[UUID, dict[str, Any]]:
    answered, cancelled = Q(status=Call.Status.OK), Q(status=Call.Status.CANCELLED)  # these cost, too
    rows = (
        Call.objects.filter(session__in=among)
        .values("session__policy")
        .annotate(
            count=Count("pk", filter=~cancelled),
            errors=Count("pk", filter=~answered & ~cancelled),
            p50=_Percentile("seconds", fraction=0.5, filter=answered),
            p95=_Percentile("seconds", fraction=0.95, filter=answered),
            **sums(),
        )
        .order_by()
    )
    return {row["session__policy"]: dict(row) for row in rows}


def _outcomes(among: SessionQuerySet) -> dict[UUID, Outcomes]:
    """Sessions of one unit are correlated, so each unit is averaged first and counts once."""
    rows = (
        among.filter(drawn__isnull=False, success__isnull=False)
        .values("drawn", "unit_digest")
        .annotate(count=Count("pk"), share=Avg(Cast("success", IntegerField()), output_field=FloatField()))
        .order_by()
    )
    by_arm: dict[UUID, list[tuple[int, float]]] = defaultdict(list)
    for row in rows:
        by_arm[row["drawn"]].append((row["count"], row["share"]))
    outcomes = {}
    for pk, units in by_arm.items():
        total = sum(share for _, share in units)
        outcomes[pk] = Outcomes(
            sum(count for count, _ in units), len(units), total / len(units), *wilson(total, len(units))
        )
    return outcomes


def _mismatch(among: SessionQuerySet, since: datetime, expected: Mapping[UUID, float]) -> float | None:
    """Counted by units, since these are what is drawn for: a user with a hundred sessions was drawn once."""
    rows = (
        among.filter(created_at__gte=since, drawn__in=expected.keys())
        .values("drawn")
        .annotate(units=Count("unit_digest", distinct=True))
        .order_by()
    )
    counts = {row["drawn"]: row["units"] for row in rows}
    return mismatch([counts.get(pk, 0) for pk in expected], list(expected.values()))
