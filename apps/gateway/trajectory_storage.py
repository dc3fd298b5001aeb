"""Stores the trajectories of ended sessions: one for each path through the calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from uuid import UUID

from django.db import transaction

from apps.gateway.models import Call, Path, Session
from apps.gateway.session_trajectories import (
    MAX_CHARACTERS,
    leaves_of,
    outlines_of,
    paths_of,
    size_of,
    trajectory_of,
    whole_size_of,
    with_content,
)
from apps.trajectories.imports.bulk_copy import Origin, copy_in
from apps.trajectories.imports.preparation import Prepared, prepare
from apps.trajectories.models import Trajectory
from contract import jsontext
from contract.trajectory import Task
from contract.values import mapping

SOURCE = "gateway"
STORED_BYTES = 8 << 20
"""Total size of the paths of an ended session that are stored together."""


@transaction.atomic
def store_trajectories(session: Session) -> None:
    """Store a trajectory for each path of an ended session that has none yet. Called again, it adds late calls.

    Training runs keep their own sessions' results. An episode of rollouts without a reported outcome isn't stored: it's played again.
    """
    if session.is_of_training or (session.rollout_batch_id and session.state == Session.State.ABANDONED):
        return
    calls = outlines_of(session)
    events = list(session.events.all())
    stored_leaves = set(Path.objects.filter(session=session).values_list("leaf_id", flat=True))
    paths = paths_of(calls)
    main = paths[0] if paths else []
    if size_of(main) > MAX_CHARACTERS:
        _note_problem(session, f"Its chat has more than {MAX_CHARACTERS >> 20} MiB, so it didn't become a trajectory.")
        return
    for together in _path_batches([path for path in paths if path[-1].pk not in stored_leaves], main):
        is_main = together[0] is main
        whole = None if is_main else _task_as_stored(session)
        prepared = []
        for path in with_content(together):
            part_of = None if path[0].pk == main[0].pk else whole
            record = trajectory_of(session, path, events, is_main=is_main, part_of=part_of)
            try:
                prepared.append((path[-1], prepare(record, jsontext.dumps(record.to_json()))))
            except jsontext.UnreadableJSON as problem:  # one level deeper than its requests were
                _note_problem(session, f"A path of {len(path)} calls couldn't become a trajectory: {problem}")
        if is_main and prepared:
            Path.objects.filter(session=session, is_main=True).update(is_main=False)
        # One trajectory per episode, so that those of two policies can be paired; late ones don't belong to the batch.
        batch_id = session.rollout_batch_id if is_main and not stored_leaves else None
        _store_paths(session, prepared, is_main=is_main, rollout_batch_id=batch_id)
    if left_out := len(leaves_of(calls)) - len(paths):
        _note_problem(
            session, f"Its chat branches too often: {left_out:,} of its shorter paths didn't become trajectories."
        )
    _mark_branches(session, paths)


def _task_as_stored(session: Session) -> Task:
    """Its task: the workspace may have known it already, and the first record of a task defines it."""
    columns = (f"trajectory__task__{name}" for name in ("environment", "key", "held_out"))
    stored = Path.objects.filter(session=session, is_main=True).values_list(*columns).first()
    if stored is None:  # its main path couldn't become a trajectory
        named = mapping(session.task)
        return Task(key=str(named.get("key") or session.pk), held_out=named.get("held_out") is True)
    environment, key, held_out = stored
    return Task(environment=environment, key=key, held_out=held_out)


def _path_batches(paths: Sequence[list[Call]], main: list[Call]) -> Iterator[list[list[Call]]]:
    """The main path alone, and of the others as many together as have STORED_BYTES, so that neither thousands of queries nor hundreds of megabytes are needed."""
    together: list[list[Call]] = []
    size = 0
    for path in paths:
        together.append(path)
        size += whole_size_of(path)
        if path is main or size > STORED_BYTES:
            yield together
            together, size = [], 0
    if together:
        yield together


def _note_problem(session: Session, problem: str) -> None:
    Session.objects.filter(pk=session.pk).update(problem=problem)


def _store_paths(
    session: Session,
    paths: Sequence[tuple[Call, Prepared]],
    *,
    is_main: bool = False,
    rollout_batch_id: UUID | None = None,
) -> None:
    """Store paths, given as last call and trajectory. In bulk: individually, ten statements for each of a thousand delayed the request."""
    origin = Origin(session.workspace_id, SOURCE, rollout_batch_id=rollout_batch_id, policy_id=session.policy_id)
    copy_in([prepared for _, prepared in paths], origin)
    Path.objects.bulk_create(
        Path(session=session, leaf=leaf, trajectory_id=prepared.id, is_main=is_main) for leaf, prepared in paths
    )


def _mark_branches(session: Session, paths: list[list[Call]]) -> None:
    """Mark paths that diverge from the main one as branches of its trajectory."""
    trajectories = dict(Path.objects.filter(session=session).values_list("leaf_id", "trajectory_id"))
    paths = [path for path in paths if path[-1].pk in trajectories]
    if len(paths) < 2:
        return
    main = [call.pk for call in paths[0]]
    branches: dict[int, list[UUID]] = defaultdict(list)
    for path in paths[1:]:
        shared = sum(node.pk == main_pk for node, main_pk in zip(path, main, strict=False))
        branches[shared].append(trajectories[path[-1].pk])
    branches.pop(0, None)
    for shared, ids in branches.items():
        Trajectory.objects.filter(pk__in=ids, parent=None).update(
            parent_id=trajectories[paths[0][-1].pk], branch_step=shared
        )
