"""Scripted repairers of different quality. They know which lines are wrong, as a person who wrote the function would."""

import random
from dataclasses import dataclass
from functools import partial
from typing import Any

from contract.trajectory import Task
from contract.values import JsonObject
from trainer.environments.scripts import Call, Script, ScriptFactory


@dataclass(frozen=True)
class Habits:
    """How a repairer works: each number is the probability of doing the right thing where a shortcut tempts."""

    reproduces: float = 1.0
    """Runs the examples before changing anything."""
    finds: float = 1.0
    """Notices what is wrong with a line instead of overlooking it."""
    types: float = 1.0
    """Writes the line correctly instead of losing its indentation."""
    verifies: float = 1.0
    """Runs the examples again, and repairs what broke."""


HABITS: dict[str, Habits] = {
    "expert": Habits(),
    "hasty": Habits(reproduces=0.2, finds=0.5, verifies=0.3),
    "careless": Habits(finds=0.9, types=0.6, verifies=0.6),
    "demonstrator": Habits(reproduces=0.5, finds=0.6, types=0.8, verifies=0.5),
}


def repair(habits: Habits, task: Task, rng: random.Random) -> Script:
    """Read the code, change it, and run the examples; then report."""

    def does(probability: float) -> bool:
        return rng.random() < probability

    yield Call("show_code", {}, "First I read the function.")
    if does(habits.reproduces):
        yield Call("run_examples", {}, "Does an example show what is wrong?")
    fixes: list[JsonObject] = task.success_check["fixes"]
    for fix in (fix for fix in fixes if does(habits.finds)):
        typed = fix if does(habits.types) else {**fix, "text": fix["text"].lstrip()}
        yield Call("replace_line", typed, f"Line {fix['line']} is wrong.")
    if does(habits.verifies):
        results: Any = yield Call("run_examples", {}, "Is it right now?")
        if not all(result["passed"] for result in results):
            for fix in fixes:
                yield Call("replace_line", dict(fix), f"Line {fix['line']} once more.")
    return "The function is repaired."


SCRIPTS: dict[str, ScriptFactory] = {name: partial(repair, habits) for name, habits in HABITS.items()}
