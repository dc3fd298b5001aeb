"""Stores the trajectories of ended sessions: one for each path through the calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from django.db import transaction

from apps.gateway.models import Call, Path, Session
from apps.gateway.session_trajectories import (
    MAX_CHARACTERS,
    leaves_of,
    outlines_of,
    path_to,
    paths_of,
    size_of,
    trajectory_of,
    whole_size_of,
    with_content,
)
from apps.trajectories.imports.bulk_copy import Origin, copy_in, replace
from apps.trajectories.imports.preparation import Prepared, prepare
from apps.trajectories.models import Trajectory
from apps.trajectories.referrers import referrer_of
from contract import jsontext
from contract.trajectory import Task
from contract.values import mapping

SOURCE = "gateway"
STORED_BYTES = 8 << 20
"""Total size of the paths of an ended session that are stored together."""


class Plan(NamedTuple):
    """How a session's paths are to be stored."""

    main: list[Call]
    """The path with the outcome."""
    rows: dict[UUID, Path]
    """By its last call, the stored path that each path is or continues."""

    def row_of(self, path: list[Call]) -> Path | None:
        return self.rows.get(path[-1].pk)

    def is_stored(self, path: list[Call]) -> bool:
        """Whether its trajectory is as it should be."""
        row = self.row_of(path)
        return row is not None and (row.leaf_id, row.is_main) == (path[-1].pk, path is self.main)


@transaction.atomic
def store_trajectories(session: Session) -> None:
    """Store a trajectory for each path of an ended session. Called again, it adds late calls: they change the trajectory of the path that they continue,
    and which path is the main one, unless something depends on these trajectories.

    Training runs keep their own sessions' results. An episode of rollouts without a reported outcome isn't stored: it's played again.
    """
    if session.is_of_training or (session.rollout_batch_id and session.state == Session.State.ABANDONED):
        return
    calls = outlines_of(session)
    events = list(session.events.all())
    stored = list(Path.objects.filter(session=session))
    paths = paths_of(calls)
    plan = _plan(session, calls, paths, stored)
    main = plan.main
    if size_of(main) > MAX_CHARACTERS:
        _note_problem(session, f"Its chat has more than {MAX_CHARACTERS >> 20} MiB, so it didn't become a trajectory.")
        return
    missing = sorted((path for path in paths if not plan.is_stored(path)), key=lambda path: path is not main)
    for together in _path_batches(missing, main):
        is_main = together[0] is main
        whole = None if is_main else _task_as_stored(session)
        prepared = []
        for path in with_content(together):
            part_of = None if path[0].pk == main[0].pk else whole
            record = trajectory_of(session, path, events, is_main=is_main, part_of=part_of)
            row = plan.row_of(path)
            identifier = None if row is None else row.trajectory_id
            try:
                prepared.append((path[-1], prepare(record, jsontext.dumps(record.to_json()), identifier=identifier)))
            except jsontext.UnreadableJSON as problem:  # one level deeper than its requests were
                _note_problem(session, f"A path of {len(path)} calls couldn't become a trajectory: {problem}")
        if is_main and prepared:
            Path.objects.filter(session=session, is_main=True).update(is_main=False)
        # One trajectory per episode, so that those of two policies can be paired; late ones don't belong to the batch.
        batch_id = session.rollout_batch_id if is_main and not stored else None
        _store_paths(session, prepared, plan.rows, is_main=is_main, rollout_batch_id=batch_id)
    if left_out := len(leaves_of(calls)) - len(paths):
        _note_problem(
            session, f"Its chat branches too often: {left_out:,} of its shorter paths didn't become trajectories."
        )
    _mark_branches(session, main, paths)


def _plan(session: Session, calls: Sequence[Call], paths: list[list[Call]], stored: Sequence[Path]) -> Plan:
    """The longest path becomes the main one, and stored paths are changed, as far as nothing depends on their trajectories."""
    unmatched = {row.leaf_id: row for row in stored}
    rows: dict[UUID, Path] = {}
    for path in paths:
        row = next((unmatched.pop(call.pk) for call in reversed(path) if call.pk in unmatched), None)
        if row is not None and (row.leaf_id == path[-1].pk or _may_change(row)):
            rows[path[-1].pk] = row
    longest = paths[0] if paths else []
    main_row = next((row for row in stored if row.is_main), None)
    longest_row = rows.get(longest[-1].pk) if longest else None
    if main_row is None or longest_row is main_row:
        return Plan(longest, rows)
    main = next((path for path in paths if rows.get(path[-1].pk) is main_row), None)
    may_move = main is not None and session.rollout_batch_id is None  # the main path is the batch's
    if may_move and _may_change(main_row) and (longest_row is None or _may_change(longest_row)):
        return Plan(longest, rows)
    return Plan(main or path_to(main_row.leaf_id, calls), rows)


def _may_change(row: Path) -> bool:
    """Whether nothing depends on its trajectory, apart from branches, whose part of it stays as it is. Locks it, so that nothing can until this
    transaction ends.
    """
    Trajectory.objects.select_for_update().filter(pk=row.trajectory_id).values_list("pk").first()
    return not referrer_of(row.trajectory_id, besides={Path, Trajectory})


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
    rows: Mapping[UUID, Path],
    *,
    is_main: bool = False,
    rollout_batch_id: UUID | None = None,
) -> None:
    """Store paths, given as last call and trajectory. New ones in bulk: individually, ten statements for each of a thousand delayed the request.

    rows: the stored paths that some of them change, by last call.
    """
    origin = Origin(session.workspace_id, SOURCE, rollout_batch_id=rollout_batch_id, policy_id=session.policy_id)
    new = [(leaf, prepared) for leaf, prepared in paths if leaf.pk not in rows]
    copy_in([prepared for _, prepared in new], origin)
    Path.objects.bulk_create(
        Path(session=session, leaf=leaf, trajectory_id=prepared.id, is_main=is_main) for leaf, prepared in new
    )
    for leaf, prepared in paths:
        if leaf.pk in rows and replace(prepared, origin):
            Path.objects.filter(pk=rows[leaf.pk].pk).update(leaf=leaf, is_main=is_main)


def _mark_branches(session: Session, main: list[Call], paths: Sequence[list[Call]]) -> None:
    """Mark paths that diverge from the main one as branches of its trajectory."""
    trajectories = dict(Path.objects.filter(session=session).values_list("leaf_id", "trajectory_id"))
    others = [path for path in paths if path is not main and path[-1].pk in trajectories]
    if not others or not main or (trunk := trajectories.get(main[-1].pk)) is None:
        return
    branches: dict[int, list[UUID]] = defaultdict(list)
    for path in others:
        shared = sum(node.pk == of_main.pk for node, of_main in zip(path, main, strict=False))
        branches[shared].append(trajectories[path[-1].pk])
    for without_place in (0, len(main)):  # another chat, or what was added to a main path that can't be changed
        branches.pop(without_place, None)
    Trajectory.objects.filter(pk=trunk).exclude(parent=None).update(parent=None, branch_step=None)
    for shared, ids in branches.items():
        Trajectory.objects.filter(pk__in=ids).update(parent_id=trunk, branch_step=shared)
