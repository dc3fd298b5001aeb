"""Undoes bulk actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from django.db import transaction
from django.utils.timezone import now

from apps.accounts.models import User
from apps.annotation.audit import record
from apps.annotation.bulk.assignment import restore_people
from apps.annotation.bulk.labels import withdraw_labels
from apps.annotation.models import BulkAct
from apps.annotation.refusals import Refusal

UNDO: Mapping[str, Callable[[BulkAct], None]] = {
    BulkAct.Kind.LABEL: withdraw_labels,
    BulkAct.Kind.ASSIGN: restore_people,
}


class AlreadyUndone(Refusal):
    code = "already_undone"
    message = "This was undone already."


class LaterAct(Refusal):
    code = "later_act"
    message = "Items of this queue were assigned once more since then. Undo that first."


@transaction.atomic
def undo_bulk_act(*, act: BulkAct, by: User) -> BulkAct:
    """Undo the whole action. Raises AlreadyUndone; LaterAct if that would discard a newer assignment."""
    locked = BulkAct.objects.select_for_update(of=("self",)).select_related("queue__workspace").get(pk=act.pk)
    if locked.undone_at is not None:
        raise AlreadyUndone
    later = BulkAct.objects.filter(queue=locked.queue_id, kind=locked.kind, pk__gt=locked.pk, undone_at=None)
    if any(not locked.before.keys().isdisjoint(other.before) for other in later):
        raise LaterAct
    UNDO[locked.kind](locked)
    locked.undone_at = now()
    locked.save(update_fields=["undone_at"])
    record(locked.queue, by, "undid bulk act in", act=locked.words)
    return locked
