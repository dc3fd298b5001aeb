"""SFT on the best half of the demonstrations, with as many training steps as SFT on all of them."""

from collections import defaultdict
from typing import Any

from bench.learning.annotators import quality
from bench.learning.harness import Bench, Outcome, outcome
from bench.learning.training import first_model, sft_config
from contract.trajectory import Trajectory


def curation(bench: Bench) -> Outcome:
    """`before` is the success of the model trained on all demonstrations; `demonstrator` is the success of the selected ones."""
    first_model(bench)
    selected = best_half(bench.trajectories("demonstrations"))
    rows = bench.write("curated.jsonl", [demonstration.to_json() for demonstration in selected])
    report = bench.run("curated-sft", sft_config(bench, rows))
    before, after = bench.success("sft"), bench.success("curated-sft")
    more: dict[str, Any] = {
        "gain": bench.difference("sft", "curated-sft")._asdict(),
        "demonstrations": len(selected),
        "demonstrator": round(sum(bool(run.outcome.success) for run in selected) / len(selected), 4),
    }
    return outcome(bench, "curation", report, before=before.value, after=after, **more)


def best_half(demonstrations: list[Trajectory]) -> list[Trajectory]:
    """The better half by `quality` of each kind of task at each level, so that the tasks stay as diverse as they were. Keeps the order."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, demonstration in enumerate(demonstrations):
        groups[demonstration.task.category, demonstration.task.difficulty].append(index)
    kept = {
        index
        for group in groups.values()
        for index in sorted(group, key=lambda index: quality(demonstrations[index]), reverse=True)[: len(group) // 2]
    }
    return [demonstrations[index] for index in sorted(kept)]
