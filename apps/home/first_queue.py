"""Creates a small queue to label right away: of the workspace's own trajectories or, if it has none, of sample ones."""

from __future__ import annotations

import gzip
from itertools import islice
from pathlib import Path

from django.db import transaction

from apps.accounts.models import Membership, Workspace
from apps.annotation.kinds.pair_selection import Pair, Pairing, draw
from apps.annotation.models import Queue
from apps.annotation.queues.queue_lifecycle import create_queue_of_pairs, create_queue_of_trajectories
from apps.annotation.queues.sources import Selection, candidates_by_task
from apps.trajectories.imports.bulk_copy import Origin, copy_in
from apps.trajectories.imports.preparation import prepare
from apps.trajectories.models import Trajectory
from contract import jsontext
from contract.trajectory import Trajectory as TrajectoryRecord

MAX_ITEMS = 10
LOOKED_AT = 400
"""How many of the newest trajectories are searched for pairs."""
NAME = "First labels"
"""Visible to annotators."""
SAMPLE = Path(__file__).with_name("sample_trajectories.jsonl.gz")
"""Ten office tasks, each attempted by two scripts of different quality; one trajectory per line, in Retrace's rich form."""
GUIDELINES = """\
Which of the two would you rather have working for you?

- First: did it do **all** of what was asked, and nothing that was not asked?
- Then: was its approach sensible? Needless steps and failed calls count against it.
- Use *tie* when you would not mind which one you got, and *both bad* when you would want neither.
"""


@transaction.atomic
def first_queue(*, member: Membership) -> Queue:
    """The open queue with that name, created if there is none: of pairs if trajectories share a task, otherwise of single ones to rate."""
    workspace = member.workspace
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)  # a double click creates only one queue
    before = Queue.objects.filter(workspace=workspace, name=NAME).open().order_by("-pk").first()
    if before is not None:
        return before
    if not Trajectory.objects.filter(workspace=workspace).exists():
        _store_sample(workspace)
    newest = list(
        Trajectory.objects.filter(workspace=workspace).order_by("-pk").values_list("pk", flat=True)[:LOOKED_AT]
    )
    common = {"workspace": workspace, "created_by": member.user, "name": NAME}
    if pairs := _pairs_among(workspace, Selection(ids=newest)):
        return create_queue_of_pairs(pairs=pairs, guidelines=GUIDELINES, **common)
    trajectories = Trajectory.objects.filter(pk__in=newest[:MAX_ITEMS]).order_by("-pk")
    return create_queue_of_trajectories(kind=Queue.Kind.RATING, trajectories=trajectories, **common)


def _pairs_among(workspace: Workspace, selection: Selection) -> list[Pair]:
    """One pair per task, preferably of trajectories that ended differently, which teach the most."""
    tasks = list(
        candidates_by_task(workspace, selection, Pairing(different_outcomes=True), after=None, tasks=LOOKED_AT)
    )
    for pairing in (Pairing(per_task=1, different_outcomes=True), Pairing(per_task=1)):
        pairs = [pair for task, candidates in tasks for pair in draw(pairing, task, candidates)]
        if len(pairs) >= MAX_ITEMS or not pairing.different_outcomes:
            break
    return list(islice(pairs, MAX_ITEMS))


def _store_sample(workspace: Workspace) -> None:
    lines = gzip.decompress(SAMPLE.read_bytes()).splitlines(keepends=True)
    prepared = [prepare(TrajectoryRecord.from_json(jsontext.loads(line)), line) for line in lines]
    copy_in(prepared, Origin(workspace.pk, "sample"))
