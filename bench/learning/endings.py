"""How rollouts end, which tasks fail, and which ways of acting: `python -m bench.learning.endings KEEP/3/sft-held-out KEEP/3/grpo-held-out …`.

Prints Markdown tables with a column per folder of rollouts.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from apps.demo import recipe
from contract.trajectory import Trajectory
from trainer.records import read_trajectories

ENDINGS = ("success", "part", "nothing", "nothing, cut off", "harm")
"""Failures are classified by the sign of their reward; a cut-off rollout has a turn that ended at the token limit."""

MAX_SEQUENCES = 12


def endings(rollouts: Iterable[Trajectory]) -> dict[str, int]:
    """Number of rollouts per kind of ending."""
    counts = Counter(ending(rollout) for rollout in rollouts)
    return {name: counts[name] for name in ENDINGS}


def ending(rollout: Trajectory) -> str:
    reward = rollout.outcome.reward or 0.0
    if rollout.outcome.success:
        return "success"
    if reward:
        return "part" if reward > 0 else "harm"
    return "nothing, cut off" if is_cut_off(rollout) else "nothing"


def is_cut_off(rollout: Trajectory) -> bool:
    limit = recipe.SAMPLING["max_new_tokens"]
    return any(len(step.info.get("token_ids") or ()) >= limit for step in rollout.steps)


def solved(rollouts: Iterable[Trajectory]) -> dict[str, str]:
    """Successes and total per kind of task."""
    successes = successes_by(rollouts, lambda rollout: f"{rollout.task.difficulty} {rollout.task.category}".strip())
    return {kind: f"{sum(successes[kind])} of {len(successes[kind])}" for kind in sorted(successes)}


def solved_by_tools(rollouts: Iterable[Trajectory]) -> dict[str, str]:
    """Successes and total per sequence of tools called, of the most frequent sequences."""
    successes = successes_by(rollouts, lambda rollout: ", ".join(map(str, tools_called(rollout))) or "none")
    frequent = sorted(successes, key=lambda tools: -len(successes[tools]))[:MAX_SEQUENCES]
    return {tools: f"{sum(successes[tools])} of {len(successes[tools])}" for tools in frequent}


def successes_by(rollouts: Iterable[Trajectory], key: Callable[[Trajectory], str]) -> dict[str, list[bool]]:
    successes: dict[str, list[bool]] = {}
    for rollout in rollouts:
        successes.setdefault(key(rollout), []).append(bool(rollout.outcome.success))
    return successes


def tools_called(rollout: Trajectory) -> list[str]:
    return [call["function"]["name"] for step in rollout.steps for call in step.message.get("tool_calls") or ()]


def columns(
    heads: Sequence[str],
    folders: Sequence[Sequence[Trajectory]],
    count: Callable[[Sequence[Trajectory]], dict[str, object]],
) -> str:
    """A table with the counts of each folder."""
    counted = [count(rollouts) for rollouts in folders]
    names = dict.fromkeys(name for counts in counted for name in counts)
    lines = [["", *heads], ["---"] * (len(heads) + 1)]
    lines += [[name, *(str(counts.get(name, "")) for counts in counted)] for name in names]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main(names: Sequence[str]) -> None:
    folders = [list(read_trajectories(Path(name) / "trajectories.jsonl")) for name in names]
    heads = ["/".join(Path(name).parts[-2:]) for name in names]
    print(columns(heads, folders, lambda rollouts: dict(endings(rollouts))))
    print(columns(heads, folders, lambda rollouts: dict(solved(rollouts))))
    print(columns(heads, folders, lambda rollouts: dict(solved_by_tools(rollouts))))


if __name__ == "__main__":
    main(sys.argv[1:])
