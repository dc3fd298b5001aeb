"""The rollouts behind a point of a run's curves. The trainer keeps some of each step in the run's folder; on request they're stored as
trajectories, which can be replayed and sent to a queue.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import User
from apps.ingest.reading import read_line
from apps.training.folders import folder_of
from apps.training.models import Run
from apps.trajectories.imports.bulk_copy import Origin, copy_in
from apps.trajectories.imports.preparation import Prepared, prepare

SOURCE = "training"
FILE = re.compile(r"(step|evaluation)-(\d{1,9})\.jsonl")
LARGEST_BYTES = 256 * 1024 * 1024


class NotSampled(Exception):
    """The run kept no rollouts of this step."""


@dataclass(frozen=True)
class Sampled:
    """The steps of which a run kept rollouts."""

    training: list[int]
    """Steps with rollouts that the run learned from."""
    evaluation: list[int]
    """Steps with attempts at held-out tasks."""

    @property
    def steps(self) -> list[int]:
        return sorted({*self.training, *self.evaluation})


def sampled(run: Run) -> Sampled:
    """The steps found in the run's folder. Reads file names only."""
    steps: dict[str, list[int]] = {"step": [], "evaluation": []}
    for path in (folder_of(run.pk).path / "rollouts").glob("*.jsonl"):
        if match := FILE.fullmatch(path.name):
            steps[match[1]].append(int(match[2]))
    return Sampled(sorted(steps["step"]), sorted(steps["evaluation"]))


@transaction.atomic
def open_sampled(*, run: Run, step: int, by: User) -> str:
    """Store the rollouts of the newest kept step up to `step`; returns the tag that selects them in the list.

    Idempotent. Raises NotSampled.
    """
    samples = sampled(run)
    nearest = max((sampled_step for sampled_step in samples.steps if sampled_step <= step), default=None)
    if nearest is None:
        raise NotSampled(f"{run.name} kept no rollouts up to step {step}.")
    tag = f"{run.name[:60]} · step {nearest} · {run.pk.hex[-6:]}"
    prepared: list[Prepared] = []
    for kind in ("step", "evaluation"):
        path = folder_of(run.pk).path / "rollouts" / f"{kind}-{nearest:06d}.jsonl"
        if path.is_file():
            prepared += _prepared(run, path, tags=[tag, "training" if kind == "step" else "evaluation"])
    if copy_in(prepared, Origin(run.workspace_id, SOURCE)).trajectories:
        audit.record(
            workspace=run.workspace, actor=by, action="opened rollouts of", subject=run.name, target=run, step=nearest
        )
    return tag


def _prepared(run: Run, path: Path, *, tags: list[str]) -> list[Prepared]:
    """Reads complete lines only, since the trainer may be writing the last one."""
    if path.stat().st_size > LARGEST_BYTES:
        raise NotSampled(f"{path.name} is larger than {LARGEST_BYTES >> 20} MiB; lower the number of rollouts kept.")
    prepared = []
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            record = read_line(line)
            record.policy = None  # the policy in training isn't registered yet; their source is the run
            record.info = {**record.info, "run": str(run.pk)}
            record.tags = [*record.tags, *tags]
            prepared.append(prepare(record, line))
    return prepared
