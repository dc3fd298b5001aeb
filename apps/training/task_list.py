"""Parses a list of tasks for runners, one per line."""

from __future__ import annotations

import hashlib
from typing import Any

from contract import jsontext
from contract.trajectory import Task
from contract.values import BadRow

MAX_TASKS = 5000
MAX_TASK_LENGTH = 100_000
"""Characters of JSON."""
MAX_KEY_LENGTH, MAX_NAME_LENGTH, MAX_LEVEL_LENGTH = 300, 100, 50
FIELDS = ("key", "instruction", "initial_state", "success_check", "category", "difficulty", "held_out")


class BadTask(ValueError):
    """A task can't be read. The message says which, and what was expected."""


def read_tasks(text: str) -> list[Task]:
    """One task per nonempty line, either a JSON object or a plain instruction. Raises BadTask."""
    tasks: list[Task] = []
    for number, line in enumerate(
        text.split("\n"), start=1
    ):  # `splitlines` also splits within texts, such as at U+2028
        if not (line := line.strip()):
            continue
        if len(tasks) == MAX_TASKS:
            raise BadTask(f"There are more than {MAX_TASKS:,} tasks. Start several batches.")
        try:
            task_fields = (
                jsontext.loads(line.encode("utf-8", "surrogatepass")) if line.startswith("{") else {"instruction": line}
            )
        except jsontext.UnreadableJSON as problem:
            raise BadTask(f"Line {number} begins like a JSON object but isn't one: {problem}") from None
        tasks.append(read_task(task_fields, f"Line {number}"))
    return tasks


def read_task(task_fields: Any, location: str) -> Task:
    """One task. Without a key, it's named by its instruction. Raises BadTask, whose message begins with `location`."""
    if not isinstance(task_fields, dict):
        raise BadTask(f"{location} isn't an object. {EXPECTED}")
    if unknown := sorted(set(task_fields) - set(FIELDS)):
        raise BadTask(f"{location} has an unknown field {unknown[0]!r:.100}. Known fields: {', '.join(FIELDS)}.")
    instruction = task_fields.get("instruction")
    if not task_fields.get("key") and isinstance(instruction, str) and instruction:
        task_fields = {
            **task_fields,
            "key": hashlib.sha256(instruction.encode("utf-8", "surrogatepass")).hexdigest()[:16],
        }
    try:
        task = Task.from_json(task_fields)
        size = len(jsontext.dumps(task.to_json()))
    except (BadRow, jsontext.UnreadableJSON) as problem:
        raise BadTask(f"{location}: {problem} {EXPECTED}") from None
    if size > MAX_TASK_LENGTH:
        raise BadTask(f"{location} is {size:,} characters as JSON; a task may have {MAX_TASK_LENGTH:,} at most.")
    for name, most in (("key", MAX_KEY_LENGTH), ("category", MAX_NAME_LENGTH), ("difficulty", MAX_LEVEL_LENGTH)):
        if len(getattr(task, name)) > most:
            raise BadTask(f"{location}: {name} has more than {most} characters.")
    return task


EXPECTED = 'A task is an object such as {"key": "order-17", "instruction": "Refund order 17.", "initial_state": {}}.'
