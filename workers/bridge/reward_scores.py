"""A reward model as an annotator: a child process scores both trajectories of each pair, and the difference is its judgment."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from django.conf import settings

from apps.annotation.judges import judge_job
from apps.annotation.judges.llm_judge import Refused
from apps.annotation.models import Item, Judge
from apps.jobs import lifecycle
from apps.jobs.models import Phase
from apps.trajectories.export import rich_form
from apps.trajectories.models import Trajectory
from trainer.failures import ConfigFailure
from workers.bridge import supervisor
from workers.bridge.configs import model_path
from workers.bridge.process import ChildProcess

PAIRS_PER_CHILD = 200
"""Pairs scored per child process, which loads the model once."""
TIMEOUT_SECONDS = 3600
POLL_SECONDS = 1.0
LAST_LINES = 15
SCRATCH = "scoring-"
"""How the names of folders begin that hold trajectories while they're scored."""
ABANDONED_SECONDS = 2 * TIMEOUT_SECONDS
"""Nothing is scored in a folder for so long: its worker was killed."""


class Interrupted(Exception):
    """The judge was paused, or this worker is shutting down: the child is killed, and its pairs are scored again later."""


def run_slice(judge: Judge) -> None:
    """Score a chunk of a queue for a claimed judge, and enqueue the next."""
    judge_job.work(judge, _score_slice)


def _score_slice(judge: Judge) -> None:
    items = list(judge_job.unasked(judge)[:PAIRS_PER_CHILD])
    try:
        rewards = scores_of(judge, items) if items else {}
    except Interrupted:
        if lifecycle.renew(judge) == Phase.STOPPING:
            lifecycle.stop(judge, "It was paused.")
        return
    for item in items:
        judge_job.record_rewards(judge, item, a=rewards.get(item.a_id), b=rewards.get(item.b_id))
    if len(items) < PAIRS_PER_CHILD:
        judge_job.finish(judge)


def scores_of(judge: Judge, items: Sequence[Item]) -> dict[UUID | None, float | None]:
    """The reward of each trajectory in these pairs, each scored once. Raises Refused, Interrupted."""
    ids = {pk for item in items for pk in (item.a_id, item.b_id) if pk}
    trajectories = list(Trajectory.objects.filter(pk__in=ids).select_related("task", "policy"))
    policy = judge.annotator.policy
    assert policy is not None, "judges have the policy that they were sent with"
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=_scratch_root()) as name:
        folder = Path(name)
        with (folder / "runs.jsonl").open("wb") as file:
            for trajectory in trajectories:
                file.writelines(rich_form(trajectory))
        try:
            model = model_path(policy, folder, workspace_id=judge.workspace_id)
        except ConfigFailure as refused:
            raise Refused(refused.message) from None
        _run_child(judge, folder, model)
        lines = (folder / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    return {trajectory.pk: json.loads(line)["reward"] for trajectory, line in zip(trajectories, lines, strict=True)}


def delete_abandoned() -> None:
    """Delete what killed workers left: trajectories mustn't outlive their removal there."""
    for folder in _scratch_root().glob(f"{SCRATCH}*"):
        with suppress(FileNotFoundError):  # its worker has just deleted it
            if time.time() - folder.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


def _scratch_root() -> Path:
    """Next to the runs, so that relative model paths match those in a run.json."""
    root = Path(settings.RUNS_DIR)
    root.mkdir(parents=True, exist_ok=True)
    return root


def _run_child(judge: Judge, folder: Path, model: str) -> None:
    command = [sys.executable, "-m", "trainer.score", model, str(folder / "runs.jsonl"), str(folder / "scores.jsonl")]
    log = folder / "log.txt"
    deadline = time.monotonic() + TIMEOUT_SECONDS
    with ChildProcess(command, log=log) as child:
        while (status := child.wait(POLL_SECONDS)) is None:
            if supervisor.is_shutting_down() or lifecycle.renew(judge) == Phase.STOPPING:
                raise Interrupted
            if time.monotonic() > deadline:
                raise Refused(f"Scoring took longer than {TIMEOUT_SECONDS // 60} minutes.")
    if status:
        last = "\n".join(log.read_text("utf-8", "replace").strip().splitlines()[-LAST_LINES:])
        raise Refused(f"The scoring program ended with {status}:\n{last}")
