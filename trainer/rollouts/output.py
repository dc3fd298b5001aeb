"""The output file of trajectories, appended without duplicates, and its summary."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from contract.trajectory import Trajectory
from trainer.events import cut_broken_tail
from trainer.records import read_lines, read_trajectories
from trainer.statistics import proportion


class TrajectoryFile:
    """Opens the file for appending; an incomplete line left by a killed run is removed first."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        cut_broken_tail(path)
        self.path = path
        self.ids = {row["id"] for _, row in read_lines(path)} if path.exists() else set()
        # Lone surrogates, which UTF-8 can't encode, are written as JSON escapes.
        self._file = path.open("a", encoding="utf-8", errors="backslashreplace")

    def append(self, trajectory: Trajectory) -> None:
        self._file.write(json.dumps(trajectory.to_json(), ensure_ascii=False) + "\n")
        self._file.flush()
        self.ids.add(trajectory.id)

    def close(self) -> None:
        self._file.close()


def summarize(path: Path) -> dict[str, Any]:
    """Figures over the whole file, including earlier parts of a resumed run. `success` and `mean_reward` are over the episodes of which
    they are known."""
    successes: dict[str, list[bool]] = defaultdict(list)
    terminations: Counter[str] = Counter()
    steps = errors = tokens = 0
    rewards: list[float] = []
    for trajectory in read_trajectories(path):
        successes[trajectory.task.difficulty] += successes_of([trajectory])
        terminations[trajectory.outcome.termination] += 1
        if trajectory.outcome.reward is not None:
            rewards.append(trajectory.outcome.reward)
        steps += len(trajectory.steps)
        errors += sum(step.error is not None for step in trajectory.steps)
        tokens += sum(step.completion_tokens or 0 for step in trajectory.steps)
    episodes = terminations.total()
    everything = [success for level in successes.values() for success in level]
    return {
        "episodes": episodes,
        "success": proportion(sum(everything), len(everything))._asdict(),
        "success_by_level": {level: proportion(sum(s), len(s))._asdict() for level, s in sorted(successes.items())},
        "mean_reward": round(fmean(rewards), 4) if rewards else None,
        "mean_steps": round(steps / max(1, episodes), 2),
        "steps_with_errors": errors,
        "completion_tokens": tokens,
        "terminations": dict(terminations.most_common()),
        "output": path.name,
    }


def successes_of(trajectories: Iterable[Trajectory]) -> list[bool]:
    """Whether the task was completed, for each trajectory that says so: an environment that failed says nothing about the policy."""
    return [trajectory.success for trajectory in trajectories if trajectory.success is not None]
