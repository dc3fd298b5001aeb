"""`python -m bench.learning`: runs every stage with every seed; prints a JSON line for each, then a table.

SEEDS="0 1 2" and STAGES="sft grpo" select; SIZE=large starts from a model four times as large; WORLD=search asks multi-hop questions instead of giving
office tasks; KEEP=folder keeps the runs there and reuses those that are finished; RESULTS=folder keeps the lines there (`bench/learning/results` has
those shown in docs/learning.md); THREADS=1 leaves a core to other processes.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from bench.learning import results
from bench.learning.harness import SIZES, SMALL, WORLDS, Bench, Outcome
from bench.learning.stages import STAGES


def main() -> int:
    """Returns 1 if a stage failed."""
    stages = os.environ.get("STAGES", "").split() or list(STAGES)
    seeds = [int(seed) for seed in os.environ.get("SEEDS", "").split() or ("0", "1", "2")]
    if unknown := set(stages) - STAGES.keys():
        sys.exit(f"No stage named {', '.join(sorted(unknown))}. There are: {', '.join(STAGES)}.")
    size, world = os.environ.get("SIZE") or SMALL, os.environ.get("WORLD") or WORLDS[0]
    if size not in SIZES:
        sys.exit(f"No size named {size}. There are: {', '.join(SIZES)}.")
    if world not in WORLDS:
        sys.exit(f"No world named {world}. There are: {', '.join(WORLDS)}.")
    if keep := os.environ.get("KEEP"):
        return run(stages, seeds, Path(keep).resolve(), size, world)
    with tempfile.TemporaryDirectory(prefix="retrace-learning-") as folder:
        return run(stages, seeds, Path(folder), size, world)


def run(stages: list[str], seeds: list[int], folder: Path, size: str = SMALL, world: str = WORLDS[0]) -> int:
    """Outcomes of another world or size have its name in their stage, and in the folder of their runs."""
    outcomes: list[Outcome] = []
    failed: list[str] = []
    for seed in seeds:
        for stage in stages:
            try:
                bench = Bench(folder / str(seed), seed, size, world)
                outcome = STAGES[stage](replace(bench, folder=folder / f"{seed}{bench.suffix}"))
            except subprocess.CalledProcessError as error:
                failed.append(f"{stage} with seed {seed}: {error}")
                continue
            outcome = replace(outcome, stage=outcome.stage + bench.suffix)
            outcomes.append(outcome)
            if results_folder := os.environ.get("RESULTS"):
                results.keep(Path(results_folder), outcome)
            print(outcome.as_json(), flush=True)
    print(table(outcomes))
    print("".join(f"Could not be run: {failure}\n" for failure in failed), end="")
    return 1 if failed else 0


def table(outcomes: Iterable[Outcome]) -> str:
    """The outcomes as a text table."""
    lines = [f"{'stage':<18}{'seed':>5}{'before':>9}{'after':>8}  {'95 % interval':<16}{'n':>5}{'seconds':>9}{'MB':>7}"]
    for outcome in outcomes:
        before = "" if outcome.before is None else f"{outcome.before:.1%}"
        interval = f"{outcome.low:.1%} to {outcome.high:.1%}"
        lines.append(
            f"{outcome.stage:<18}{outcome.seed:>5}{before:>9}{outcome.after:>8.1%}  {interval:<16}{outcome.n:>5}"
            f"{outcome.seconds:>9.0f}{outcome.peak_mb:>7.0f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
