"""The most important decision for a researcher now: the first in a list of conditions that holds."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Exists, F, OuterRef
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import Membership
from apps.annotation.models import Assignment, Item, Queue
from apps.arena.models import Experiment
from apps.arena.stopping_rule import Outcome
from apps.datasets.models import Version
from apps.jobs.models import JobState
from apps.policies.models import Policy, Promotion
from apps.training.models import Run
from apps.trajectories.models import ImportBatch, Trajectory
from apps.webhooks.models import Destination

RECENT = timedelta(days=3)
"""Older failures have been seen, or don't matter any more."""
DECIDED_WITHIN = timedelta(days=7)
"""After this time, anybody who wanted to promote the winner would have done so."""
LOOKED_AT = 20
"""How many of the newest rows each condition examines."""


@dataclass(frozen=True)
class Decision:
    """What needs attention, why, and where to act."""

    title: str
    reason: str
    action: str
    url: str


def decision_for(member: Membership) -> Decision | None:
    """The most pressing decision; None if nothing needs attention."""
    return next((decision for question in QUESTIONS if (decision := question(member))), None)


def _experiment_decided(member: Membership) -> Decision | None:
    """An experiment found the challenger better, and the winner hasn't been promoted since."""
    ended = (
        Experiment.objects.visible_to(member)
        .filter(state=Experiment.State.STOPPED, stopped_at__gte=now() - DECIDED_WITHIN)
        .select_related("policy_a", "policy_b")
    )
    for experiment in ended.order_by("-stopped_at")[:LOOKED_AT]:
        outcome = experiment.verdict.get("outcome")
        winner = {Outcome.A_BETTER: experiment.policy_a, Outcome.B_BETTER: experiment.policy_b}.get(outcome)
        if winner is None or not experiment.verdict.get("stopped_by_rule"):
            continue
        promotions = Promotion.objects.visible_to(member).filter(environment=experiment.environment)
        champion = promotions.order_by("-pk").first()
        ended_at = experiment.stopped_at or experiment.created_at
        if champion is not None and (champion.policy_id == winner.pk or champion.created_at > ended_at):
            continue
        return Decision(
            f"“{experiment}” has a winner: {winner}",
            "It ended by its rule. Promote the winner to champion, or keep the current one.",
            "Decide",
            reverse("arena:experiment", args=[experiment.pk]),
        )
    return None


def _run_failed(member: Membership) -> Decision | None:
    """A run failed recently, and nothing has been launched since."""
    latest = Run.objects.visible_to(member).order_by("-pk").first()
    if latest is None or latest.state != Run.State.FAILED or latest.created_at < now() - RECENT:
        return None
    reason = latest.failure.get("message") or "Its page shows the end of its log."
    return Decision(
        f"Training run “{latest}” failed", reason, "See what happened", reverse("training:run", args=[latest.pk])
    )


def _import_failed(member: Membership) -> Decision | None:
    """The latest import stopped before its end."""
    latest = ImportBatch.objects.visible_to(member).order_by("-pk").first()
    if latest is None or latest.state != JobState.FAILED or latest.created_at < now() - RECENT:
        return None
    reason = latest.error or "Its page says where it stopped."
    url = reverse("trajectories:import", args=[latest.pk])
    return Decision(f"The import of {latest.filename} stopped", reason, "See what happened", url)


def _webhook_off(member: Membership) -> Decision | None:
    """Retrace turned a webhook off, and nobody has turned it on again or removed it."""
    turned_off = Destination.objects.visible_to(member).filter(is_on=False).exclude(off_reason="")
    latest = turned_off.order_by("-pk").first()
    if latest is None:
        return None
    url = reverse("webhooks:destination", args=[latest.pk])
    return Decision(f"“{latest}” gets no more events", latest.off_reason, "Turn it on, or remove it", url)


def _queue_judged(member: Membership) -> Decision | None:
    """A queue has all the judgments it asked for, and no version contains them."""
    free = Item.objects.filter(queue=OuterRef("pk"), purpose=Item.Purpose.WORK, taken__lt=F("overlap"))
    in_hand = Assignment.objects.filter(queue=OuterRef("pk"), state=Assignment.State.OPEN)
    judged = Item.objects.filter(queue=OuterRef("pk"), purpose=Item.Purpose.WORK, judged__gt=0)
    full = (
        Queue.objects.visible_to(member)
        .filter(~Exists(free), ~Exists(in_hand), Exists(judged), item_count__gt=0, experiment=None)
        .exclude(state=Queue.State.FILLING)
        .order_by("-pk")[:LOOKED_AT]
    )
    frozen = _queues_in_versions(member)
    queue = next((queue for queue in full if str(queue.pk) not in frozen), None)
    if queue is None:
        return None
    return Decision(
        f"“{queue}” is fully judged",
        "Freeze its judgments into a dataset version, so that a training run can learn from them.",
        "Freeze a version",
        f"{reverse('datasets:list')}?queue={queue.pk}",
    )


def _queues_in_versions(member: Membership) -> set[str]:
    recipes = Version.objects.visible_to(member).exclude(state=Version.State.FAILED).order_by("-pk")
    return {queue for recipe in recipes.values_list("recipe", flat=True)[:200] for queue in recipe.get("queues", [])}


def _version_untrained(member: Membership) -> Decision | None:
    """The newest frozen version hasn't been trained on."""
    latest = Version.objects.visible_to(member).frozen().select_related("dataset").order_by("-pk").first()
    if latest is None or latest.runs.exists():
        return None
    return Decision(
        f"{latest} is frozen and unused",
        "Train a reward model or a policy on it.",
        "Train on it",
        f"{reverse('training:new')}?version={latest.pk}",
    )


def _policy_uncompared(member: Membership) -> Decision | None:
    """The newest policy made by training was never compared with another."""
    trained = Policy.objects.visible_to(member).filter(kind=Policy.Kind.MODEL, archived_at=None, made_by__isnull=False)
    latest = trained.select_related("base").order_by("-pk").first()
    if latest is None or _was_compared(latest.pk, member):
        return None
    champion = (
        Promotion.objects.visible_to(member).exclude(policy=latest).select_related("policy").order_by("-pk").first()
    )
    base = latest.base if latest.base and latest.base.archived_at is None else None
    other = champion.policy if champion else base
    pair = {**({"a": other.pk} if other else {}), "b": latest.pk}
    name = "the champion" if champion else other.name if other else "another policy"
    return Decision(
        f"How good is {latest}?",
        f"Have it and {name} attempt the same held-out tasks, and let people compare them blind.",
        "Compare it",
        f"{reverse('arena:new')}?{urlencode(pair)}",
    )


def _was_compared(policy: UUID, member: Membership) -> bool:
    experiments = Experiment.objects.visible_to(member)
    return experiments.filter(policy_a=policy).exists() or experiments.filter(policy_b=policy).exists()


def _nothing_to_judge(member: Membership) -> Decision | None:
    """There are trajectories, but no queue was ever created."""
    if Queue.objects.visible_to(member).exists() or not Trajectory.objects.visible_to(member).exists():
        return None
    return Decision(
        "There are no queues yet",
        "Choose trajectories and create a queue of pairs; annotators find it on their home page.",
        "Choose trajectories",
        reverse("trajectories:list"),
    )


def _no_data(member: Membership) -> Decision | None:
    """The workspace has no data yet."""
    if Trajectory.objects.visible_to(member).exists() or ImportBatch.objects.visible_to(member).exists():
        return None
    return Decision(
        "Import your first trajectories",
        "Import a file (SWE-agent, tau-bench, OpenAI-style chats, Retrace's own JSON Lines, and others), or roll out a policy.",
        "Import a file",
        reverse("trajectories:imports"),
    )


QUESTIONS: tuple[Callable[[Membership], Decision | None], ...] = (
    _experiment_decided,
    _run_failed,
    _import_failed,
    _webhook_off,
    _queue_judged,
    _version_untrained,
    _policy_uncompared,
    _nothing_to_judge,
    _no_data,
)
