"""A reward model as a machine annotator: a child process scores both runs of each pair, and the difference is its word."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from django.conf import settings

from apps.annotation import judging
from apps.annotation.models import Item, Judge
from apps.trajectories.models import Trajectory
from apps.trajectories.writing_out import rich_form
from workers.bridge.configs import model_path
from workers.bridge.process import SECRETS

PAIRS_A_STRETCH = 200
"""So many pairs are scored by one child, which loads the model once."""
PATIENCE_SECONDS = 3600
LAST_LINES = 15


class ScoringFailed(Exception):
    """The child ended badly: its last words."""


def go_on(judge_id: UUID) -> None:
    """Score a stretch of a queue and hand on. Does nothing where another worker has this judge, or it is not to work."""
    with judging.held(judge_id, seconds=PATIENCE_SECONDS) as judge:
        if judge is None:
            return
        items = list(judging.unasked(judge)[:PAIRS_A_STRETCH])
        try:
            rewards = scores_of(judge, items) if items else {}
        except ScoringFailed as failed:
            judging.stop(judge, str(failed))
            return
        for item in items:
            judging.record_rewards(judge, item, a=rewards.get(item.a_id), b=rewards.get(item.b_id))
        if len(items) < PAIRS_A_STRETCH:
            judging.finish(judge)
    judging.hand_on(judge_id)


def scores_of(judge: Judge, items: Sequence[Item]) -> dict[UUID | None, float | None]:
    """The reward of each run of these pairs, each run scored once. Raises ScoringFailed."""
    ids = {run for item in items for run in (item.a_id, item.b_id) if run}
    runs = list(Trajectory.objects.filter(pk__in=ids).select_related("task", "policy"))
    policy = judge.annotator.policy
    assert policy is not None, "judges have the policy that they were sent with"
    with tempfile.TemporaryDirectory(dir=_home()) as name:
        folder = Path(name)
        with (folder / "runs.jsonl").open("wb") as file:
            for run in runs:
                file.writelines(rich_form(run))
        _run_child(folder, model_path(policy, folder))
        lines = (folder / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    return {run.pk: json.loads(line)["reward"] for run, line in zip(runs, lines, strict=True)}


def _home() -> Path:
    """Beside the runs, so that the path of a model from there is the one that run.json would hold."""
    home = Path(settings.RUNS_DIR)
    home.mkdir(parents=True, exist_ok=True)
    return home


def _run_child(folder: Path, model: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in SECRETS}
    command = [sys.executable, "-m", "trainer.score", model, str(folder / "runs.jsonl"), str(folder / "scores.jsonl")]
    try:
        done = subprocess.run(
            command, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise ScoringFailed(f"Scoring took longer than {PATIENCE_SECONDS // 60} minutes.") from None
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-LAST_LINES:])
        raise ScoringFailed(f"The scoring program ended with {done.returncode}:\n{last}")
