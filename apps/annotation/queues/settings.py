"""Changing the settings of a queue, closing it at its end date or target, and pausing, resuming, or retraining single annotators."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Q
from django.utils.timezone import now

from apps.accounts.models import Membership, User
from apps.annotation.audit import record
from apps.annotation.desk.assignments import has_ended, lock_desk
from apps.annotation.desk.layouts import trimmed
from apps.annotation.kinds import kind_of
from apps.annotation.models import Annotator, Assignment, Desk, Item, Queue
from apps.annotation.queues.known_answers import NoOnboardingItems
from apps.annotation.queues.overlap import raise_overlap
from apps.annotation.queues.question_changes import with_questions
from apps.annotation.queues.queue_lifecycle import close_queue
from apps.annotation.refusals import Refusal
from apps.common.workspace_turns import do_in_workspace_turns
from contract import jsontext
from contract.questions import Question

TURN_SECONDS = 5.0
"""How long ended queues of one workspace are closed before those of the next."""


class NotAMember(Refusal):
    code = "not_a_member"
    message = "Only members of this workspace can be named. Reload the page and choose again."


class ChangedMeanwhile(Refusal):
    code = "changed_meanwhile"
    message = "Somebody changed these settings meanwhile. Reload the page and make your change again."


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings that may change while people work. Existing leases keep their expiry."""

    name: str
    overlap: int
    """Can only grow, since judgments are kept."""
    lease_seconds: int
    skipped_come_back: bool
    gold_percent: int
    blind_review: bool
    shows_machines: bool
    ends_at: datetime | None
    ends_after: int | None
    questions: Sequence[Question] | None = None
    """The questions from now on; None keeps the current ones. Answered questions keep their meaning."""
    questions_seen: str = ""
    """The version of the questions that was edited; see `question_changes.version_of`."""
    layout: Mapping[str, str] | None = None
    """The default desk layout; None keeps the current one."""
    labelers: Collection[int] | None
    """Ids of the users who may label; None for everybody in the workspace."""
    seen: str = ""
    """The version of the settings that was edited, if a page shows all of them; see `version_of`."""


COLUMNS = (
    *("name", "overlap", "lease_seconds", "skipped_come_back", "gold_percent", "blind_review", "shows_machines"),
    *("ends_at", "ends_after", "is_restricted", "layout"),
)


def version_of(queue: Queue) -> str:
    """Changes with the settings, so that of two tabs editing them the second gets a conflict. Without the questions, which have their own version."""
    values = {name: _plain(getattr(queue, name)) for name in COLUMNS}
    people = sorted(queue.labelers.values_list("pk", flat=True))
    return hashlib.sha256(jsontext.canonical([values, people])).hexdigest()[:16]


@transaction.atomic
def change_settings(*, queue: Queue, settings: Settings, by: User) -> Queue:
    """Store the settings, with the previous ones in the audit record. Raises ChangedMeanwhile, NotAMember, BadAsks, FewerPeople,
    FixedByPlan.
    """
    locked = Queue.objects.select_for_update(no_key=True).get(pk=queue.pk)  # assignments refer to it while people work
    if settings.seen and settings.seen != version_of(locked):
        raise ChangedMeanwhile
    columns: dict[str, Any] = {
        "name": settings.name,
        "overlap": settings.overlap,
        "lease_seconds": settings.lease_seconds,
        "skipped_come_back": settings.skipped_come_back,
        "gold_percent": settings.gold_percent,
        "blind_review": settings.blind_review,
        "shows_machines": settings.shows_machines,
        "ends_at": settings.ends_at,
        "ends_after": settings.ends_after,
        "is_restricted": settings.labelers is not None,
        "asks": with_questions(locked, settings.questions, settings.questions_seen),
        "layout": locked.layout if settings.layout is None else trimmed(locked.kind, settings.layout),
    }
    labeler_ids = set(settings.labelers or ())
    if Membership.objects.filter(workspace=locked.workspace_id, user__in=labeler_ids).count() != len(labeler_ids):
        raise NotAMember
    before = {name: getattr(locked, name) for name in columns}
    if settings.overlap != locked.overlap:
        raise_overlap(queue=locked, overlap=settings.overlap)
    for name, value in columns.items():
        setattr(locked, name, value)
    locked.save(update_fields=list(columns))
    locked.labelers.set(labeler_ids)
    changed = {name: [_plain(before[name]), _plain(value)] for name, value in columns.items() if before[name] != value}
    record(locked, by, "changed settings of", **changed, labelers=len(labeler_ids))
    return locked


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def close_ended() -> None:
    """Close open queues that have reached their end. Called by a periodic task. Each workspace gets a few seconds."""
    ended = Queue.objects.open().filter(_WITH_AN_END)
    do_in_workspace_turns(ended, _close_if_ended, name="ended-queues", seconds=TURN_SECONDS)


def _close_if_ended(queue: Queue) -> None:
    if has_ended(queue):
        with suppress(Refusal):  # somebody paused or closed it meanwhile
            close_queue(queue=queue, by=None)


_WITH_AN_END = Q(ends_at__isnull=False) | Q(ends_after__isnull=False)


@transaction.atomic
def pause_annotator(*, queue: Queue, annotator: Annotator, reason: str, by: User | None) -> None:
    """Assign this annotator nothing more here until `resume_annotator`; they see the reason. They may finish current items."""
    desk = lock_desk(queue=queue.pk, annotator=annotator.pk)
    desk.paused_at, desk.pause_reason = desk.paused_at or now(), reason
    desk.save(update_fields=["paused_at", "pause_reason"])
    _audit(desk, by, "paused", reason)


@transaction.atomic
def resume_annotator(*, queue: Queue, annotator: Annotator, by: User | None) -> None:
    """Assign items to this annotator here again."""
    desk = lock_desk(queue=queue.pk, annotator=annotator.pk)
    desk.paused_at, desk.pause_reason = None, ""
    desk.save(update_fields=["paused_at", "pause_reason"])
    _audit(desk, by, "resumed")


@transaction.atomic
def retrain_annotator(*, queue: Queue, annotator: Annotator, by: User | None) -> None:
    """Send this annotator through the onboarding items again, before anything else. Raises NoOnboardingItems.

    Their earlier answers to them are kept, marked as withdrawn.
    """
    desk = lock_desk(queue=queue.pk, annotator=annotator.pk)
    if not queue.training_count:
        raise NoOnboardingItems
    onboarding = Assignment.objects.select_for_update(of=("self",)).filter(
        queue=queue, annotator=annotator, state=Assignment.State.JUDGED, item__purpose=Item.Purpose.ONBOARDING
    )
    ids = list(onboarding.values_list("pk", flat=True))
    kind_of(queue).model.objects.filter(assignment__in=ids).update(retracted_at=now())
    items = Item.objects.filter(assignments__in=ids)
    for item in Item.objects.select_for_update().filter(pk__in=items.values("pk")).order_by("pk"):
        Item.objects.filter(pk=item.pk).update(taken=F("taken") - 1, judged=F("judged") - 1)
    Assignment.objects.filter(pk__in=ids).update(state=Assignment.State.UNDONE)
    desk.trained = desk.trained_right = 0
    desk.save(update_fields=["trained", "trained_right"])
    _audit(desk, by, "asked for more training of")


def _audit(desk: Desk, by: User | None, action: str, reason: str = "") -> None:
    record(desk.queue, by, action, who=desk.annotator, target=desk.annotator, queue=str(desk.queue_id), reason=reason)
