"""Scores trajectories with a reward model: `python -m trainer.score MODEL RUNS.jsonl SCORES.jsonl`.

Reads trajectories in rich form and writes, in the same order, one object per line: {"id", "reward"}. The reward is the model's own number
(a Bradley–Terry logit), null for a trajectory that its chat template refuses.
"""

import json
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from contract.configs.rewards import LearnedOutcomeTerm
from trainer.failures import RunFailure
from trainer.records import read_trajectories
from trainer.rewards.learned import LearnedOutcome

AT_ONCE = 8


def score(model: str, runs: Path, scores: Path) -> None:
    """Raises RunFailure."""
    learned = LearnedOutcome(LearnedOutcomeTerm(path=model, batch_size=AT_ONCE), runs.parent)
    with scores.open("w", encoding="utf-8") as file:
        waiting = read_trajectories(runs)
        while batch := list(islice(waiting, 4 * AT_ONCE)):
            for trajectory, outcome in zip(batch, learned.score(batch), strict=True):
                file.write(json.dumps({"id": trajectory.id, "reward": outcome.details.get("logit")}) + "\n")


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    model, runs, scores = arguments
    try:
        score(model, Path(runs), Path(scores))
    except RunFailure as failure:
        print(f"{failure} {getattr(failure, 'advice', '')}".strip(), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
