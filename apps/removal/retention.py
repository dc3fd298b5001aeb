"""Retention rules: unused trajectories of one source are deleted after a number of days.

Used means: in an item of a queue, judged or not; part of an experiment; commented on. Other dependents (`blockers`) also prevent deletion.
The gateway's rule includes sessions that became no trajectory, since nothing else deletes them.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Exists, F, Func, OuterRef, Q, QuerySet, UUIDField
from django.utils.timezone import now

from apps.accounts import audit
from apps.accounts.models import Membership
from apps.annotation.models import Comment, Item, Queue
from apps.arena.models import Experiment, LiveAttempt
from apps.gateway.models import Path, Session
from apps.gateway.trajectory_storage import SOURCE
from apps.jobs import lifecycle
from apps.removal import blockers, deletion, dependents
from apps.removal.models import Removal, RetentionRule
from apps.training.models import Episode
from apps.trajectories.models import Trajectory

A_BATCH = 200
"""Trajectories deleted per transaction."""
A_RUN = 20_000
"""Trajectories that one job examines; the next day's job continues."""
COUNTED = 100_000
"""Limit of the count in previews."""
PERIOD = timedelta(hours=24)


class RuleRefused(ValueError):
    """The rule is invalid: `field` names the field, and the message says what to do."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@transaction.atomic
def create_rule(*, source: str, days: int, by: Membership) -> RetentionRule:
    """Create a rule, turned off. Raises RuleRefused."""
    try:
        with transaction.atomic():
            rule = RetentionRule.objects.create(workspace=by.workspace, source=source, days=days, created_by=by.user)
    except IntegrityError:
        raise RuleRefused("source", f"There is a rule for {source} already. Change that one.") from None
    _record(rule, by, "made retention rule")
    return rule


@transaction.atomic
def change_rule(*, rule: RetentionRule, by: Membership, days: int | None = None, is_on: bool | None = None) -> None:
    """Change the number of days, or turn the rule on or off; omitted values stay the same."""
    locked = RetentionRule.objects.select_for_update().get(pk=rule.pk)
    locked.days = locked.days if days is None else days
    locked.is_on = locked.is_on if is_on is None else is_on
    locked.save(update_fields=["days", "is_on"])
    _record(locked, by, "changed retention rule", is_on=locked.is_on)


@transaction.atomic
def remove_rule(*, rule: RetentionRule, by: Membership) -> None:
    """Remove a rule. Its deletion in progress stops at the next batch."""
    _record(rule, by, "removed retention rule")
    RetentionRule.objects.filter(pk=rule.pk).delete()


def _record(rule: RetentionRule, by: Membership, action: str, **detail: object) -> None:
    audit.record(workspace=by.workspace, actor=by.user, action=action, subject=str(rule), target=rule, **detail)


def expired(rule: RetentionRule) -> QuerySet[Trajectory]:
    """The trajectories that the rule would delete now, oldest first."""
    items = Item.objects.filter(Q(a=OuterRef("pk")) | Q(b=OuterRef("pk")))
    batch = OuterRef("rollout_batch")
    trajectories = Trajectory.objects.filter(
        ~Exists(items),
        ~Exists(Comment.objects.filter(trajectory=OuterRef("pk"))),
        ~Exists(LiveAttempt.objects.filter(trajectory=OuterRef("pk"))),
        ~Exists(Experiment.objects.filter(Q(rollouts_a=batch) | Q(rollouts_b=batch))),
        workspace=rule.workspace_id,
        source=rule.source,
        created_at__lt=now() - timedelta(days=rule.days),
    )
    for side in ("recorded_a", "recorded_b"):
        runs = Func(F(side), function="unnest", output_field=UUIDField())
        compared = Experiment.objects.filter(workspace=rule.workspace_id)
        trajectories = trajectories.exclude(pk__in=compared.annotate(run=runs).values("run"))
    return trajectories.order_by("pk")


def expired_sessions(rule: RetentionRule) -> QuerySet[Session]:
    """The gateway's sessions that became no trajectory: a training run's, those without an answered call, and those that were too large."""
    if rule.source != SOURCE:
        return Session.objects.none()
    in_progress = Episode.objects.filter(session=OuterRef("pk"), batch__closed_at=None)
    sessions = Session.objects.filter(
        ~Exists(Path.objects.filter(session=OuterRef("pk"))),
        ~Exists(in_progress),
        workspace=rule.workspace_id,
        ended_at__lt=now() - timedelta(days=rule.days),
    )
    return sessions.exclude(state=Session.State.OPEN).order_by("pk")


def would_go(rule: RetentionRule) -> int:
    """How many trajectories, and sessions that became none, it would delete now; COUNTED + 1 if there are more."""
    found = sum(rows[: COUNTED + 1].count() for rows in (expired(rule), expired_sessions(rule)))
    return min(found, COUNTED + 1)


def apply_rules() -> int:
    """Request the deletions of active rules, each once a day; returns how many. Called by a periodic task."""
    due = Q(ran_at=None) | Q(ran_at__lt=now() - PERIOD)
    requested = 0
    for rule in RetentionRule.objects.filter(due, is_on=True).select_related("workspace", "created_by"):
        with transaction.atomic():
            if not RetentionRule.objects.filter(due, pk=rule.pk, is_on=True).update(ran_at=now()):
                continue  # another process was faster
            if not (expired(rule).exists() or expired_sessions(rule).exists()):
                continue
            if Removal.objects.active().filter(thing=Removal.Thing.EXPIRED, target=rule.pk).exists():
                continue
            removal = Removal.objects.create(
                workspace=rule.workspace, thing=Removal.Thing.EXPIRED, target=rule.pk, title=str(rule)
            )
            lifecycle.queue(removal)
            requested += 1
    return requested


def carry_out(removal: Removal) -> None:
    """Delete in batches, each with its progress in one transaction, until nothing is left, the rule is off, or A_RUN is reached. Raises Superseded."""
    removed, looked_at, last = Counter(removal.removed), 0, None
    while looked_at < A_RUN:
        rule = RetentionRule.objects.filter(pk=removal.target, is_on=True).first()
        if rule is None or Queue.objects.filter(workspace=removal.workspace, state=Queue.State.FILLING).exists():
            break
        remaining = expired(rule) if last is None else expired(rule).filter(pk__gt=last)
        ids = list(remaining.values_list("pk", flat=True)[:A_BATCH])
        if not ids:
            break
        with transaction.atomic():
            removed.update(_delete(ids))
            lifecycle.record_progress(removal, removed=dict(removed))
        looked_at, last = looked_at + len(ids), ids[-1]
    while looked_at < A_RUN and (rule := RetentionRule.objects.filter(pk=removal.target, is_on=True).first()):
        with transaction.atomic():
            locked = expired_sessions(rule).select_for_update(of=("self",), skip_locked=True)
            ids = list(locked.values_list("pk", flat=True)[:A_BATCH])
            counts = dependents.delete(Session.objects.filter(pk__in=ids), spared=blockers.NEVER)
            removed.update(deletion.counts_by_name(counts))
            lifecycle.record_progress(removal, removed=dict(removed))
        looked_at += len(ids)
        if not ids:
            break
    with transaction.atomic():
        audit.record(
            workspace=removal.workspace,
            actor=None,
            action="deleted",
            subject=f"expired trajectories: {removal.title}",
            target=removal.target,
            **removed,
        )
        lifecycle.finish(removal, removed=dict(removed))


def _delete(ids: list[UUID]) -> dict[str, int]:
    """Delete these at once or, if something depends on one of them after all, one by one, skipping it."""
    try:
        with transaction.atomic():
            return deletion.counts_by_name(deletion.delete_trajectories(ids))
    except (deletion.StillNeeded, dependents.Rests):
        pass
    removed: Counter[str] = Counter()
    for pk in ids:
        try:
            with transaction.atomic():
                removed.update(deletion.counts_by_name(deletion.delete_trajectories([pk])))
        except (deletion.StillNeeded, dependents.Rests):
            continue
    return dict(removed)
