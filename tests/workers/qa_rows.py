"""Rows of the smallest environment, one question and one answer, from which a model of 80,000 weights learns something within seconds."""

from typing import Any

from trainer.environments.qa import SYSTEM, qa_task
from trainer.records import Task

TINY = {"layers": 2, "hidden": 64, "intermediate": 64, "heads": 4, "vocabulary": 400}
QUESTIONS = 400
PAIRS = 48
GIVES_UP = "?"
GIVES_UP_ONE_IN = 16


def demonstrations() -> list[dict[str, Any]]:
    """Right answers, except for one in sixteen that gives up."""
    return [
        {"messages": [*opening(task), says(answer(task) if number % GIVES_UP_ONE_IN else GIVES_UP)]}
        for number, task in enumerate(tasks(QUESTIONS))
    ]


def preferences() -> list[dict[str, Any]]:
    """Preferences of annotators for giving up over wrong answers."""
    return [
        {"prompt": opening(task), "chosen": [says(GIVES_UP)], "rejected": [says(answer(task))]} for task in tasks(PAIRS)
    ]


def labeled_steps() -> list[dict[str, Any]]:
    """The same as step labels."""
    return [
        {"messages": [*opening(task), says(text)], "step_labels": [label]}
        for task in tasks(PAIRS)
        for text, label in ((GIVES_UP, 1), (answer(task), -1))
    ]


def tasks(count: int) -> list[Task]:
    return [qa_task("L2", "train", 1, number) for number in range(count)]


def opening(task: Task) -> list[dict[str, Any]]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task.instruction}]


def answer(task: Task) -> str:
    return str(task.success_check["answer"])


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}
