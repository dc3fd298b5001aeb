"""Repairing small Python functions. The reward is the share of hidden tests that pass, each run in a sandbox."""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import ClassVar

from contract.messages import Message
from contract.trajectory import Task
from contract.values import JsonObject
from trainer.environments.code.sandbox import run_calls
from trainer.environments.code.scripts import SCRIPTS
from trainer.environments.code.tasks import LEVELS, code_tasks
from trainer.environments.code.workshop import Workshop, passes
from trainer.environments.protocol import Score, Split
from trainer.environments.scripts import ScriptFactory
from trainer.environments.tool_environment import ToolEnvironment
from trainer.environments.tools import Toolset
from trainer.failures import DataFailure

SYSTEM = "You repair Python functions. Hidden tests check them against their description. Answer without a call when you are done."


class Code(ToolEnvironment):
    """One function to repair."""

    name: ClassVar[str] = "code"
    levels: ClassVar[tuple[str, ...]] = LEVELS
    usual_levels: ClassVar[tuple[str, ...]] = LEVELS
    scripts: ClassVar[Mapping[str, ScriptFactory]] = SCRIPTS
    waits: ClassVar[bool] = True
    toolset = Toolset(Workshop)

    @classmethod
    def tasks(cls, *, levels: tuple[str, ...], split: Split, seed: int) -> Iterator[Task]:
        return code_tasks(levels=levels, split=split, seed=seed)

    def begin(self, task: Task) -> list[Message]:
        if not task.initial_state.keys() >= {"function", "source", "examples"} or not task.success_check.get("tests"):
            raise DataFailure(
                f"Task {task.key!r} isn't a function to repair.",
                advice="Its initial_state needs function, source and examples, its success_check needs tests.",
            )
        self.tests: list[JsonObject] = task.success_check["tests"]
        self.world = Workshop(task.initial_state)
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task.instruction}]

    def score(self) -> Score:
        passed = passed_by(self.world.source, self.world.function, json.dumps(self.tests))
        subgoals = {f"hidden test {number}": is_passed for number, is_passed in enumerate(passed, start=1)}
        return Score(reward=round(sum(passed) / len(passed), 4), success=all(passed), subgoals=subgoals)


@lru_cache(maxsize=4096)
def passed_by(source: str, function: str, tests: str) -> tuple[bool, ...]:
    """For each hidden test, whether the source passes it. Cached, since most steps change nothing and many episodes start the same; the answers
    themselves aren't, since they may be large."""
    cases: list[JsonObject] = json.loads(tests)
    results = run_calls(source, function, [test["arguments"] for test in cases]).results
    return tuple(passes(result, test) for result, test in zip(results, cases, strict=True))
