"""What a trajectory file amounts to: success with its interval, by level, and how episodes ended."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from trainer.records import read_trajectories
from trainer.statistics import proportion


def summarise(path: Path) -> dict[str, Any]:
    """Figures over the whole file, earlier parts of a resumed run included."""
    successes: dict[str, list[bool]] = defaultdict(list)
    terminations: Counter[str] = Counter()
    steps = errors = tokens = 0
    rewards: list[float] = []
    for trajectory in read_trajectories(path):
        successes[trajectory.task.difficulty].append(bool(trajectory.outcome.success))
        terminations[trajectory.outcome.termination] += 1
        rewards.append(trajectory.outcome.reward or 0.0)
        steps += len(trajectory.steps)
        errors += sum(step.error is not None for step in trajectory.steps)
        tokens += sum(step.completion_tokens or 0 for step in trajectory.steps)
    episodes = len(rewards)
    everything = [success for level in successes.values() for success in level]
    return {
        "episodes": episodes,
        "success": proportion(sum(everything), episodes)._asdict(),
        "success_by_level": {level: proportion(sum(s), len(s))._asdict() for level, s in sorted(successes.items())},
        "mean_reward": round(sum(rewards) / max(1, episodes), 4),
        "mean_steps": round(steps / max(1, episodes), 2),
        "steps_with_errors": errors,
        "completion_tokens": tokens,
        "terminations": dict(terminations.most_common()),
        "output": path.name,
    }
