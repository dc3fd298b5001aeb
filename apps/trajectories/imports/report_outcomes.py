"""Applies the results in an evaluation report to trajectories: whether they were a success.

Outcomes that a trajectory has already, from itself or an earlier report, are never changed. Its content hash stays that of the import, so duplicates
are recognized with and without a report.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, QuerySet

from apps.ingest.reading import Verdict
from apps.trajectories.imports.preparation import Prepared
from apps.trajectories.models import ImportBatch, Task, Trajectory

NONE_HERE = "Import the trajectories first, then the report again."
NOT_PLAIN = (
    "Name the policy whose trajectories the report judges, or pack the report and its trajectories in one archive: "
    "trajectories that are here already are recognized and get their outcome."
)


class Refused(NamedTuple):
    """A verdict that matched no trajectory: why, and what was expected."""

    verdict: Verdict
    reason: str
    expected: str


class Applied(NamedTuple):
    """What was done with a report's verdicts."""

    outcomes: int
    unchanged: int
    refused: list[Refused]


class _Candidate(NamedTuple):
    pk: UUID
    success: bool | None
    policy: str | None
    key: str
    external_id: str


@transaction.atomic
def apply_to_instances(batch: ImportBatch, verdicts: Sequence[Verdict]) -> Applied:
    """Give each instance's trajectory its outcome if exactly one trajectory can be meant: of the given policy, or of the policy in the file's
    name, where SWE-bench puts it."""
    if not verdicts:
        return Applied(0, 0, [])
    names = {verdict.instance for verdict in verdicts}
    trajectories = Trajectory.objects.filter(workspace=batch.workspace_id).order_by("pk")
    trajectories = trajectories.filter(Q(task__in=_tasks(batch, names)) | Q(external_id__in=names))
    if batch.policy_name:
        trajectories = trajectories.filter(policy__name=batch.policy_name)
    columns = ("pk", "success", "policy__name", "task__key", "external_id")
    by_name: dict[str, list[_Candidate]] = {}
    for candidate in map(_Candidate._make, trajectories.values_list(*columns)):
        for name in {candidate.key, candidate.external_id} & names:
            by_name.setdefault(name, []).append(candidate)
    outcomes: dict[UUID, bool] = {}
    matched, refused = 0, []
    for verdict in verdicts:
        candidates = by_name.get(verdict.instance, [])
        candidates = [
            candidate for candidate in candidates if _is_named_after(batch.filename, candidate.policy)
        ] or candidates
        if len(candidates) != 1:
            refused.append(_ambiguous(verdict, len(candidates), batch.policy_name))
            continue
        [candidate] = candidates
        known = outcomes.get(
            candidate.pk, candidate.success
        )  # of a report's verdicts on one trajectory, the first counts
        if known is None:
            outcomes[candidate.pk] = verdict.is_resolved
        elif known == verdict.is_resolved:
            matched += 1
        else:
            word = "resolved" if known else "not resolved"
            reason = f"{verdict.instance} is known as {word}; the report says otherwise. Nothing was changed."
            refused.append(Refused(verdict, reason, "An outcome for a trajectory that has none."))
    return Applied(_store_outcomes(batch, outcomes), matched, refused)


def apply_to_existing(batch: ImportBatch, prepared: Iterable[Prepared]) -> int:
    """Give an archive's outcomes to those of its trajectories that existed before; returns how many had none.

    Of several outcomes of the same trajectory, the first counts.
    """
    verdicts: dict[bytes, bool] = {}
    for item in prepared:
        if item.verdict is not None:
            verdicts.setdefault(item.columns["content_hash"], item.verdict)
    if not verdicts:
        return 0
    trajectories = Trajectory.objects.filter(workspace=batch.workspace_id, content_hash__in=verdicts, success=None)
    return _store_outcomes(
        batch, {pk: verdicts[bytes(content)] for pk, content in trajectories.values_list("pk", "content_hash")}
    )


def contradicted_by(batch: ImportBatch, prepared: Iterable[Prepared]) -> set[UUID]:
    """The ids of those of an archive's records for which a report in it says otherwise than their trajectory's outcome."""
    judged = [item for item in prepared if item.verdict is not None]
    if not judged:
        return set()
    contents = {item.columns["content_hash"] for item in judged}
    trajectories = Trajectory.objects.filter(workspace=batch.workspace_id, content_hash__in=contents)
    known = {bytes(content): success for content, success in trajectories.values_list("content_hash", "success")}
    return {item.id for item in judged if known.get(item.columns["content_hash"]) is (not item.verdict)}


def withdraw_outcomes(batch: ImportBatch) -> int:
    """Remove the outcomes that this import gave to trajectories that existed before; returns how many."""
    with transaction.atomic():
        withdrawn = Trajectory.objects.filter(outcome_batch=batch).update(success=None, outcome_batch=None)
        ImportBatch.objects.filter(pk=batch.pk).update(outcome_count=F("outcome_count") - withdrawn)
    batch.refresh_from_db()
    return withdrawn


def _store_outcomes(batch: ImportBatch, verdicts: Mapping[UUID, bool]) -> int:
    count = 0
    for is_success in (True, False):
        ids = [pk for pk, verdict in verdicts.items() if verdict is is_success]
        trajectories = Trajectory.objects.filter(pk__in=ids, success=None)
        count += trajectories.update(success=is_success, outcome_batch=batch) if ids else 0
    return count


def _tasks(batch: ImportBatch, names: Collection[str]) -> QuerySet[Task]:
    return Task.objects.filter(workspace=batch.workspace_id, key__in=names)


def _is_named_after(filename: str, policy: str | None) -> bool:
    return bool(policy) and filename.startswith(f"{str(policy).replace('/', '__')}.")


def _ambiguous(verdict: Verdict, count: int, policy: str) -> Refused:
    by = f" by {policy}" if policy else ""
    if not count:
        return Refused(verdict, f"This workspace has no trajectory of {verdict.instance}{by}.", NONE_HERE)
    return Refused(verdict, f"{count} trajectories of {verdict.instance}{by} match.", NOT_PLAIN)
