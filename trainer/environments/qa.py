"""The smallest case: a question, one answer, no tools.

The question gives a few made-up prices and asks about them. L1 asks for one, L2 for the more expensive of two, L3 for the sum of two.
"""

import random
import re
import zlib
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import count
from typing import Any, ClassVar

from contract.messages import Message, ToolSchema
from contract.trajectory import Task
from trainer.environments.protocol import Score, Split, Transition
from trainer.environments.scripts import Script, ScriptFactory
from trainer.failures import DataFailure

SYSTEM = "Answer with one word or number."
THINGS = ("pen", "cup", "lamp", "book", "chair", "bag", "clock", "plate", "scarf", "spoon", "brush", "kite")
QUESTIONS = {
    "L1": "What does the {} cost?",
    "L2": "Which costs more, the {} or the {}?",
    "L3": "What do the {} and the {} cost together?",
}
HELD_OUT_ONE_IN = 5


def respond(right: float, task: Task, rng: random.Random) -> Script:
    """Give the correct answer with probability `right`, otherwise some word or number of the question."""
    answer = str(task.success_check["answer"])
    listed = task.instruction.partition(". ")[0].removeprefix("Prices: ")
    pattern = r"\d+" if answer.isdigit() else r"[a-z]+"
    alternatives = [word for word in re.findall(pattern, listed) if word != answer]
    return answer if rng.random() < right else rng.choice(alternatives)
    yield  # a script is a generator, even if it makes no calls


SKILL = {"expert": 1.0, "hasty": 0.4, "careless": 0.7, "demonstrator": 0.6}
SCRIPTS: dict[str, ScriptFactory] = {name: partial(respond, right) for name, right in SKILL.items()}


class Qa:
    """One question. Any answer ends the episode."""

    name: ClassVar[str] = "qa"
    levels: ClassVar[tuple[str, ...]] = tuple(QUESTIONS)
    usual_levels: ClassVar[tuple[str, ...]] = levels
    scripts: ClassVar[Mapping[str, ScriptFactory]] = SCRIPTS
    waits: ClassVar[bool] = False

    @property
    def tools(self) -> list[ToolSchema]:
        return []

    @classmethod
    def tasks(cls, *, levels: tuple[str, ...], split: Split, seed: int) -> Iterator[Task]:
        for number in count():
            for level in levels:
                yield qa_task(level, split, seed, number)

    def reset(self, task: Task) -> list[Message]:
        if "answer" not in task.success_check:
            raise DataFailure(f"Task {task.key!r} has no answer.", advice="Its success_check needs answer.")
        self._wanted = str(task.success_check["answer"])
        self._answer: str | None = None
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task.instruction}]

    def step(self, action: Message) -> Transition:
        self._answer = str(action.get("content") or "")
        score = self.score()
        info: dict[str, Any] = {"subgoals": score.subgoals}
        if action.get("tool_calls"):
            info["error"] = "there are no tools here"
        return Transition([], score.reward, True, info)

    def close(self) -> None:
        pass

    def score(self) -> Score:
        right = self._answer is not None and bare(self._answer) == bare(self._wanted)
        return Score(reward=float(right), success=right, subgoals={"answer": right})


def qa_task(level: str, split: Split, seed: int, number: int) -> Task:
    rng = random.Random(f"qa {level} {split} {seed} {number}")
    while True:
        subjects = rng.sample(THINGS, QUESTIONS[level].count("{}"))
        if is_held_out(subjects) == (split == "held_out"):
            break
    distractors = rng.sample([thing for thing in THINGS if thing not in subjects], 4 - len(subjects))
    things = rng.sample([*subjects, *distractors], 4)
    prices = dict(zip(things, rng.sample(range(2, 50), 4), strict=True))
    answer = {
        "L1": str(prices[subjects[0]]),
        "L2": max(subjects, key=lambda thing: prices[thing]),
        "L3": str(sum(prices[thing] for thing in subjects)),
    }[level]
    listed = ", ".join(f"{thing} {price}" for thing, price in prices.items())
    return Task(
        key=f"qa/{level}/{split}/{number}" + (f"@{seed}" if seed else ""),
        instruction=f"Prices: {listed}. {QUESTIONS[level].format(*subjects)}",
        environment="qa",
        success_check={"answer": answer},
        category=" ".join(sorted(subjects)),
        difficulty=level,
        held_out=split == "held_out",
    )


def is_held_out(subjects: list[str]) -> bool:
    """Whether a question about these subjects, in any order, is held out."""
    return zlib.crc32(" ".join(sorted(subjects)).encode()) % HELD_OUT_ONE_IN == 0


def bare(answer: str) -> str:
    return answer.strip().strip(".").lower()
