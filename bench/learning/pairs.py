"""Preferences out of a policy's own rollouts, judged by how they ended."""

from collections import defaultdict
from typing import Any

from trainer.records import Trajectory


def pairs_by_outcome(rollouts: list[Trajectory], *, per_task: int) -> list[dict[str, Any]]:
    """Preference rows: of each task the successes against the failures, at most `per_task` pairs, none of them alike."""
    by_task: dict[str, list[Trajectory]] = defaultdict(list)
    for rollout in rollouts:
        if rollout.steps:
            by_task[rollout.task.key].append(rollout)
    rows = []
    for group in by_task.values():
        good = distinct([each for each in group if each.outcome.success])
        bad = distinct([each for each in group if not each.outcome.success])
        rows += [pair(chosen, rejected) for chosen, rejected in zip(good, bad, strict=False)][:per_task]
    return rows


def pairs_by_branch(failed: list[Trajectory], branches: list[Trajectory], *, per_task: int) -> list[dict[str, Any]]:
    """Preference rows: a failed run against a success that parts from it at its first error, at most `per_task` pairs of a task."""
    better: dict[str, Trajectory] = {}
    for run in branches:
        if run.outcome.success:
            better.setdefault(run.info["branch"]["of"], run)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run in failed:
        if run.id in better and len(rows[run.task.key]) < per_task:
            rows[run.task.key].append(pair(better[run.id], run))
    return [row for of_task in rows.values() for row in of_task]


def pair(chosen: Trajectory, rejected: Trajectory) -> dict[str, Any]:
    """The row after the messages that both share."""
    a, b = chosen.messages, rejected.messages
    shared = next((index for index, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return {"prompt": a[:shared], "chosen": a[shared:], "rejected": b[shared:], "tools": chosen.tools}


def distinct(rollouts: list[Trajectory]) -> list[Trajectory]:
    """One of those that read the same."""
    return list({str(each.messages): each for each in rollouts}.values())
