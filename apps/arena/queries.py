"""An experiment's figures, computed from its judgments and its rollouts."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from django.db.models import Count, Q, QuerySet

from apps.annotation.kinds.pair_selection import shuffled_place
from apps.annotation.models import Annotator, Item, Preference
from apps.arena import win_rates
from apps.arena.models import Experiment, LiveAttempt
from apps.arena.stopping_rule import Outcome
from apps.arena.win_rates import Interval, SideBias, Tally
from apps.common.sorting import by_age, by_name
from apps.gateway.models import Call, Path
from apps.gateway.spending.costs import Cost, cost_in, sums
from apps.trajectories.models import Trajectory

SMALLEST = Decimal("1e-12")
"""Resolution in dollars with which the costs of calls are stored."""
EXPERIMENT_COLUMNS = (by_name("Experiment", "name", "pk"), by_age("Created"))


@dataclass(frozen=True, kw_only=True)
class Success:
    """A policy's success rate, by the environment's own check."""

    runs: int
    succeeded: int
    rate: Interval
    """Over tasks; n is their number."""


@dataclass(frozen=True, kw_only=True)
class SessionCost:
    """Cost in US dollars of the sessions in which a policy's compared trajectories were recorded, at the prices of that time."""

    sessions: int
    calls: int
    dollars: str | None
    """Total of the known costs; None if none is known."""
    mean: str | None
    """Mean per session."""
    estimated_calls: int
    unknown_calls: int

    def __str__(self) -> str:
        return str(Cost(Decimal(self.mean or 0), self.calls, self.estimated_calls, self.unknown_calls))


@dataclass(frozen=True, kw_only=True)
class Standing:
    """All figures of an experiment at one moment."""

    tally: Tally
    win_rate: Interval
    """Policy A's win rate, over tasks whose pairs all have their judgments or are indistinguishable."""
    outcome: Outcome
    tasks_planned: int
    items: int
    items_judged: int
    alike: int
    """Number of indistinguishable pairs: ties in addition to those in `tally`."""
    side_bias: SideBias
    judgments_by_kind: dict[str, int]
    success_a: Success
    success_b: Success
    success_difference: Interval
    """A − B in success rate, paired by task."""
    cost_a: SessionCost | None
    """None if no session was recorded, as in rollouts that Retrace plays itself."""
    cost_b: SessionCost | None

    def as_evidence(self) -> dict[str, Any]:
        """The figures as JSON, for a verdict or a promotion."""
        return asdict(self)


def figures_of(experiment: Experiment) -> Standing:
    """The figures on which `experiment` was decided, unaffected by later changes; before that, its current figures."""
    return _of_verdict(experiment.verdict) if experiment.verdict else current_standing(experiment)


def _of_verdict(verdict: dict[str, Any]) -> Standing:
    """The inverse of `as_evidence`."""
    figures: dict[str, Any] = {
        name: Success(
            runs=verdict[name]["runs"],
            succeeded=verdict[name]["succeeded"],
            rate=Interval(**verdict[name]["rate"]),
        )
        for name in ("success_a", "success_b")
    }
    figures |= {name: SessionCost(**verdict[name]) if verdict.get(name) else None for name in ("cost_a", "cost_b")}
    return Standing(
        tally=Tally(**verdict["tally"]),
        win_rate=Interval(**verdict["win_rate"]),
        outcome=Outcome(verdict["outcome"]),
        tasks_planned=verdict["tasks_planned"],
        items=verdict["items"],
        items_judged=verdict["items_judged"],
        alike=verdict.get("alike", 0),  # older verdicts lack it, since every pair was judged
        side_bias=SideBias(**verdict["side_bias"]),
        judgments_by_kind=verdict["judgments_by_kind"],
        success_difference=Interval(**verdict["success_difference"]),
        **figures,
    )


def current_standing(experiment: Experiment) -> Standing:
    """The current figures from judgments and rollouts, in six queries (a live experiment: seven) regardless of their number."""
    judgments = _judgments(experiment)
    items = _items(experiment)
    places: dict[str, int] = {}
    for item in items:
        places[item["task"]] = max(places.get(item["task"], 0), item["position"])
    unfinished = {item["task"] for item in items if item["judged"] < item["overlap"]}
    strengths: dict[str, dict[str, list[int]]] = {}
    kinds: dict[str, int] = defaultdict(int)
    for row in judgments:
        kinds[row["annotator__kind"]] += 1
        task = str(row["item__task_id"])
        if task not in unfinished:
            # Removing and reinserting moves a task to the end, so the dict's order is that in which tasks became complete.
            pairs = strengths.pop(task, {})
            pairs.setdefault(str(row["item_id"]), []).append(row["strength"])
            strengths[task] = pairs
    alike = [(task, place) for task, place in experiment.alike]
    # A live experiment may get more pairs until it has the planned number of tasks.
    planned = experiment.plan["tasks"] if experiment.is_live else len({*places, *(task for task, _ in alike)})
    is_fed = not experiment.is_live or len(items) + len(alike) >= planned
    scores = win_rates.with_ties(strengths, alike, places=places, all_known=is_fed and not unfinished)
    win_rate = win_rates.confidence_sequence(list(win_rates.task_scores(scores).values()), alpha=experiment.rule.alpha)
    runs_a, runs_b = (_runs(experiment, side) for side in LiveAttempt.Side)
    results_a, results_b = _results(runs_a), _results(runs_b)
    shared = _in_order(experiment, results_a.keys() & results_b.keys())
    keep_coming = experiment.is_live or experiment.state == Experiment.State.ROLLING_OUT
    by_task_a, success_a = _success({task: results_a[task] for task in shared}, keep_coming=keep_coming)
    by_task_b, success_b = _success({task: results_b[task] for task in shared}, keep_coming=keep_coming)
    return Standing(
        tally=win_rates.tally((row["strength"], row["both_bad"]) for row in judgments),
        win_rate=win_rate,
        outcome=experiment.rule.outcome(win_rate, tasks_planned=planned) if planned else Outcome.UNDECIDED,
        tasks_planned=planned,
        items=len(items),
        items_judged=sum(item["judged"] >= item["overlap"] for item in items),
        alike=len(alike),
        side_bias=win_rates.side_bias((row["strength"], row["a_was_left"]) for row in judgments),
        judgments_by_kind={str(Annotator.Kind(kind).label): count for kind, count in sorted(kinds.items())},
        success_a=success_a,
        success_b=success_b,
        success_difference=win_rates.difference(by_task_a, by_task_b),
        cost_a=_cost(runs_a),
        cost_b=_cost(runs_b),
    )


def _judgments(experiment: Experiment) -> list[dict[str, Any]]:
    """Valid judgments, oldest first, without those of gold and onboarding items."""
    if experiment.queue_id is None:
        return []
    fields = ("item_id", "item__task_id", "strength", "both_bad", "a_was_left", "annotator__kind")
    preferences = Preference.objects.valid().filter(queue=experiment.queue_id, item__purpose=Item.Purpose.WORK)
    return list(preferences.order_by("id").values(*fields))


def _items(experiment: Experiment) -> list[dict[str, Any]]:
    if experiment.queue_id is None:
        return []
    rows = Item.objects.filter(queue=experiment.queue_id, purpose=Item.Purpose.WORK)
    return [{**row, "task": str(row["task_id"])} for row in rows.values("task_id", "position", "judged", "overlap")]


def _runs(experiment: Experiment, side: LiveAttempt.Side) -> QuerySet[Trajectory]:
    if experiment.is_live:
        return Trajectory.objects.filter(
            live_attempts__experiment=experiment, live_attempts__side=side, live_attempts__is_paired=True
        )
    is_a = side == LiveAttempt.Side.A
    batch_id = experiment.rollouts_a_id if is_a else experiment.rollouts_b_id
    recorded = experiment.recorded_a if is_a else experiment.recorded_b
    return Trajectory.objects.filter(Q(rollout_batch=batch_id) if batch_id else Q(pk__in=recorded))


def _results(runs: QuerySet[Trajectory]) -> dict[str, list[bool]]:
    """The outcomes of each task's trajectories, without those that have none."""
    by_task: dict[str, list[bool]] = defaultdict(list)
    for task, success in runs.filter(success__isnull=False).values_list("task_id", "success"):
        by_task[str(task)].append(bool(success))
    return by_task


def _in_order(experiment: Experiment, tasks: Collection[str]) -> list[str]:
    """In an order drawn by the plan's seed or, of a live experiment, that in which tasks were paired.

    Intervals that take tasks one by one hold only if their order says nothing about their outcomes. By ID, they follow their levels; as their
    trajectories ended, successes may come first.
    """
    if experiment.is_live:
        attempts = LiveAttempt.objects.filter(experiment=experiment, is_paired=True).order_by("pk")
        places = {str(task): place for place, task in enumerate(attempts.values_list("task", flat=True))}
        return sorted(tasks, key=lambda task: places.get(task, 0))
    seed = experiment.plan.get("seed", 0)
    return sorted(tasks, key=lambda task: shuffled_place(f"{seed} {task}"))


def _cost(runs: QuerySet[Trajectory]) -> SessionCost | None:
    """The cost of the sessions behind these trajectories. One that failed over counts for the drawn arm, like its outcome, at the cost of the
    champion's server."""
    recorded = Path.objects.filter(trajectory__in=runs.values("pk")).values("session")
    row = Call.objects.filter(session__in=recorded).aggregate(sessions=Count("session", distinct=True), **sums())
    if not row["sessions"]:
        return None
    cost = cost_in(row)
    return SessionCost(
        sessions=row["sessions"],
        calls=cost.calls,
        dollars=None if cost.is_unknown else _plain(cost.dollars),
        mean=None if cost.is_unknown else _plain(cost.dollars / row["sessions"]),
        estimated_calls=cost.estimated,
        unknown_calls=cost.unknown,
    )


def _plain(dollars: Decimal) -> str:
    return format(dollars.quantize(SMALLEST).normalize(), "f")


def _success(by_task: Mapping[str, list[bool]], *, keep_coming: bool) -> tuple[dict[str, float], Success]:
    """The success rate by task, and in total. keep_coming: whether more tasks arrive while people watch."""
    shares = {task: sum(results) / len(results) for task, results in by_task.items()}
    runs_total = sum(map(len, by_task.values()))
    succeeded = sum(map(sum, by_task.values()))
    one_each = all(len(results) == 1 for results in by_task.values())
    # Several trajectories of a task aren't independent, so the unit is the task, as for the win rate. Wilson's narrower interval holds for one look only.
    rate = (
        win_rates.success_rate(succeeded, runs_total)
        if one_each and not keep_coming
        else win_rates.confidence_sequence(list(shares.values()))
    )
    return shares, Success(runs=runs_total, succeeded=succeeded, rate=rate)
