"""What a worker writes about the rollouts it holds. Trajectories go in by the same code that imports use."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction
from django.db.models import F

from apps.ingest.reading import read_line
from apps.jobs import lifecycle
from apps.trajectories.imports.bulk_copy import Origin, copy_in
from apps.trajectories.imports.preparation import Prepared, prepare
from apps.trajectories.models import RolloutBatch


def prepare_line(batch: RolloutBatch, line: bytes) -> Prepared:
    """One line of the trainer's output, read by the importer of Retrace's own format.

    The batch becomes part of what the record says: two batches that play the same episode are two trajectories.
    """
    record = read_line(line)
    record.info = {**record.info, "rollout": str(batch.pk)}
    return prepare(record, line)


@transaction.atomic
def store(batch: RolloutBatch, prepared: Sequence[Prepared], *, begin: int, end: int) -> int:
    """Store the trajectories that stand in bytes `begin` to `end` of the output; up to which byte it is stored then.

    That is not `end` where they were stored already: the database took them, and went away before it could say so. Meanwhile
    the output has grown, so the caller goes on from there. Raises Superseded.
    """
    lifecycle.renew(batch)  # and with its row locked, nobody else moves the position
    stored = RolloutBatch.objects.values_list("position", flat=True).get(pk=batch.pk)
    if stored != begin:
        return stored
    lifecycle.get_on(
        batch,
        position=end,
        finished=F("finished") + len(prepared),
        succeeded=F("succeeded") + sum(bool(each.columns["success"]) for each in prepared),
    )
    copy_in(
        prepared,
        Origin(batch.workspace_id, "rollout", rollout_batch_id=batch.pk, policy_id=batch.policy_id),
    )
    return end
