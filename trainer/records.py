"""Tasks, steps and trajectories as they travel between the trainer and the rest of Retrace.

A trajectory is a task and an ordered list of steps. A step is one agent turn: `context`, the chat messages
that arrived before it (never trained on), and `message`, the assistant message that the policy produced (trained on).
Contexts, messages and `closing` in order give back the exact chat. The file format, "retrace/1", is JSON Lines with one
trajectory a line.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trainer.failures import DataFailure

FORMAT = "retrace/1"

JsonObject = dict[str, Any]
Message = dict[str, Any]
"""An OpenAI-style chat message: role, content, and where they apply reasoning_content, tool_calls, tool_call_id, name."""
ToolSchema = dict[str, Any]
"""{"type": "function", "function": {"name", "description", "parameters"}}"""


@dataclass(frozen=True)
class Task:
    """Something to be done, with all that is needed to set it up again."""

    key: str
    instruction: str
    environment: str = ""
    initial_state: JsonObject = field(default_factory=dict)
    success_check: JsonObject = field(default_factory=dict)
    category: str = ""
    difficulty: str = ""
    held_out: bool = False


@dataclass(frozen=True)
class Step:
    """One agent turn."""

    context: list[Message]
    message: Message
    reward: float | None = None
    done: bool = False
    error: str | None = None
    seconds: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    info: JsonObject = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """How it ended. `termination` says why: done, max_steps, max_tokens, timeout, policy_error,
    environment_error."""

    reward: float | None = None
    success: bool | None = None
    termination: str = ""


@dataclass(frozen=True)
class Trajectory:
    """One attempt at a task."""

    task: Task
    steps: list[Step]
    outcome: Outcome = field(default_factory=Outcome)
    id: str = ""
    policy: str | None = None
    tools: list[ToolSchema] = field(default_factory=list)
    closing: list[Message] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    info: JsonObject = field(default_factory=dict)

    @property
    def messages(self) -> list[Message]:
        """The whole chat, in order."""
        chat: list[Message] = []
        for step in self.steps:
            chat += [*step.context, step.message]
        return chat + self.closing

    def to_json(self) -> JsonObject:
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, data: JsonObject) -> "Trajectory":
        """Raises ValueError that says what was given and expected."""
        if data.get("format") != FORMAT:
            raise ValueError(f"format is {data.get('format')!r}, expected {FORMAT!r}")
        try:
            return cls(
                task=Task(**data["task"]),
                steps=[Step(**step) for step in data["steps"]],
                outcome=Outcome(**data.get("outcome", {})),
                **{key: data[key] for key in ("id", "policy", "tools", "closing", "tags", "info") if key in data},
            )
        except KeyError as error:
            raise ValueError(f"{error} is missing, expected a trajectory with task and steps") from None
        except TypeError as error:
            raise ValueError(f"a field is unknown or missing: {error}") from None


def read_lines(path: Path) -> Iterator[tuple[int, JsonObject]]:
    """(line number, object) of each line of a JSON Lines file; empty lines are skipped. Raises DataFailure."""
    if not path.is_file():
        raise DataFailure(f"There is no data file {path}.", advice="Check the path: it is relative to run.json.")
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except ValueError as error:
                raise bad_row(path, number, f"it is no JSON ({error})", "one JSON object on the line") from None
            if not isinstance(value, dict):
                raise bad_row(path, number, f"it is a {type(value).__name__}", "a JSON object")
            yield number, value


def bad_row(path: Path, number: int, problem: str, expected: str) -> DataFailure:
    """The failure for one row, with its place, what is wrong with it and what it should be."""
    return DataFailure(
        f"Row {number} of {path.name} cannot be used: {problem}. Expected {expected}.",
        advice=f"Correct or remove row {number} (`sed -n {number}p {path.name}` shows it), or export the version again.",
    )


def read_tasks(path: Path) -> list[Task]:
    """Tasks from a JSON Lines file with one task a line. Raises DataFailure."""
    tasks = []
    for number, row in read_lines(path):
        try:
            tasks.append(Task(**row))
        except TypeError as error:
            raise bad_row(path, number, str(error), "a task: key, instruction, environment, …") from None
    return tasks


def read_trajectories(path: Path) -> Iterator[Trajectory]:
    """Trajectories from a JSON Lines file in rich form. Raises DataFailure."""
    for number, row in read_lines(path):
        try:
            yield Trajectory.from_json(row)
        except ValueError as error:
            raise bad_row(path, number, str(error), "a trajectory in rich form (retrace/1)") from None
