"""A trajectory: everything that one agent did at one task, step by step. As JSON, one per line, it's the format retrace/1.

`context` is what the agent was shown and is never trained on; `message` is what the policy wrote. The contexts and messages of all steps,
followed by `closing`, are exactly the chat.

Parsing, writing, the JSON Schema in `docs/schemas/`, and the table in `docs/importing.md` all derive from the classes below.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self, get_type_hints

from contract import jsontext
from contract.messages import EXPECTED_CALL, Message, ToolSchema, are_calls, as_context, checked
from contract.values import (
    BadRow,
    Json,
    JsonObject,
    count,
    flag,
    mapping,
    number,
    optional_list,
    required_list,
    reward_of,
    text,
)

FORMAT: Literal["retrace/1"] = "retrace/1"
Reward = Annotated[float | None, "not finite where it could not be computed"]
FOR_SIMULATED_USER = "For the simulated user only (the agent does not see this):\n"
"""Prefix of an instruction for a simulated user, which agents aren't shown."""
EXPECTED_STEP = 'A step is {"context": [messages], "message": {"role": "assistant", …}, "reward": …, "done": …}.'


@dataclass(slots=True)
class Task:
    """What an agent is asked to do, with everything needed to set it up again."""

    __pydantic_config__: ClassVar = {"use_attribute_docstrings": True}

    key: str
    """Identifies the task within its environment and workspace."""
    instruction: str = ""
    """The request, as text."""
    environment: str = ""
    """Environment that the agent acts in."""
    initial_state: Json = field(default_factory=dict)
    """How the environment is set up for it."""
    success_check: Json = field(default_factory=dict)
    """How the environment checks for success."""
    category: str = ""
    """Labels for grouping tasks."""
    difficulty: str = ""
    """Its level."""
    held_out: bool = False
    """Held out: never trained on. A task stays held out once any record says so."""

    @classmethod
    def from_json(cls, data: Json) -> Self:
        """Raises BadRow."""
        if type(data) is not dict or not data.get("key"):
            raise BadRow("`task` has no key.", '`task` is an object such as {"key": "…", "instruction": "…"}.')
        return cls(**_read(cls, data))

    def to_json(self) -> JsonObject:
        return _written(self, Task)


@dataclass(slots=True)
class Step:
    """One agent turn."""

    __pydantic_config__: ClassVar = {"use_attribute_docstrings": True}

    context: list[Message]
    """The messages that came in before the turn."""
    message: Message
    """The assistant message that the policy wrote."""
    reward: Reward = None
    """The environment's reward for it; null if not reported."""
    done: bool = False
    """The episode ended here."""
    error: str | None = None
    """The call's error, if it failed."""
    seconds: float | None = None
    """Duration of the turn."""
    prompt_tokens: int | None = None
    """Tokens that the policy read."""
    completion_tokens: int | None = None
    """Tokens that the policy wrote."""
    info: JsonObject = field(default_factory=dict)
    """Anything else. Rollouts keep `token_ids`, `context_ids`, and `logprobs` here if the engine provides them."""

    @classmethod
    def from_json(cls, data: Json, index: int) -> Self:
        """Raises BadRow, which names the step by its index."""
        if type(data) is not dict:
            raise BadRow(f"Step {index} is {jsontext.describe(data)}.", EXPECTED_STEP)
        message = data.get("message")
        if type(message) is not dict or message.get("role") != "assistant":
            raise BadRow(f"Step {index} has no assistant message.", EXPECTED_STEP)
        context = data.get("context") or []
        if type(context) is not list:
            raise BadRow(f"Step {index} has a `context` that is {jsontext.describe(context)}.", EXPECTED_STEP)
        for turn in (*context, message):
            checked(turn, f"step {index}")
        if message.get("tool_calls") and not are_calls(message["tool_calls"]):
            raise BadRow(f"Step {index} has tool calls in another shape.", EXPECTED_CALL)
        return cls(context=context, **_read(cls, data))

    def to_json(self) -> JsonObject:
        return _written(self, Step)


@dataclass(slots=True)
class Outcome:
    """How it ended; null if not reported."""

    __pydantic_config__: ClassVar = {"use_attribute_docstrings": True}

    reward: Reward = None
    """Total reward of the trajectory."""
    success: bool | None = None
    """Whether the task succeeded."""
    termination: str = ""
    """Why it ended. Rollouts say done, max_steps, max_tokens, timeout, policy_error or environment_error."""

    @classmethod
    def from_json(cls, data: Json) -> Self:
        return cls(**_read(cls, mapping(data)))

    def to_json(self) -> JsonObject:
        return _written(self, Outcome)


@dataclass(slots=True)
class Trajectory:
    """One attempt at a task."""

    __pydantic_config__: ClassVar = {"use_attribute_docstrings": True}

    task: Task
    """The task."""
    steps: list[Step]
    """The agent's turns."""
    outcome: Outcome = field(default_factory=Outcome)
    """How it ended."""
    id: str = ""
    """Its id at its source."""
    policy: str | None = None
    """Who acted."""
    tools: list[ToolSchema] = field(default_factory=list)
    """The tools that the agent was offered, as JSON Schema."""
    closing: list[Message] = field(default_factory=list)
    """Messages after the last turn."""
    tags: list[str] = field(default_factory=list)
    """Tags for finding it."""
    info: JsonObject = field(default_factory=dict)
    """Anything else."""
    format: Literal["retrace/1"] = FORMAT
    """Format version; there is only one, and it may be left out."""

    @property
    def reward(self) -> float | None:
        return self.outcome.reward

    @property
    def success(self) -> bool | None:
        return self.outcome.success

    @property
    def termination(self) -> str:
        return self.outcome.termination

    def messages(self) -> list[Message]:
        """The chat, in order."""
        return [*(message for step in self.steps for message in (*step.context, step.message)), *self.closing]

    def chat(self) -> list[Message]:
        """The chat, in order, with the policy's messages as its only turns (`messages.is_turn`)."""
        pairs = ((*map(as_context, step.context), step.message) for step in self.steps)
        return [*(message for pair in pairs for message in pair), *map(as_context, self.closing)]

    @classmethod
    def from_json(cls, data: Json) -> Self:
        """Parse the decoded JSON of one line. Raises BadRow."""
        if type(data) is not dict:
            raise BadRow(f"The record is {jsontext.describe(data)}.", "An object with `task` and `steps`.")
        if (format_name := text(data.get("format", FORMAT))) != FORMAT:
            raise BadRow(f"The format is {format_name[:40]}.", f"`format` is {FORMAT}, the only version.")
        return cls(
            task=Task.from_json(data.get("task")),
            steps=[Step.from_json(step, index) for index, step in enumerate(required_list(data, "steps"))],
            outcome=Outcome.from_json(data.get("outcome")),
            tools=optional_list(data, "tools"),
            closing=[checked(message, "closing") for message in optional_list(data, "closing")],
            tags=[text(tag) for tag in optional_list(data, "tags")],
            **_read(cls, data),
        )

    def to_json(self) -> JsonObject:
        return {
            **_written(self, Trajectory),
            "task": self.task.to_json(),
            "steps": [step.to_json() for step in self.steps],
            "outcome": self.outcome.to_json(),
        }

    def line(self, steps: Iterable[Step]) -> Iterator[bytes]:
        """Chunks of its line in a file, with `steps` instead of its own, so that a long trajectory is never in memory as a whole."""
        rest = {name: value for name, value in self.to_json().items() if name != "steps"}
        yield jsontext.dumps(rest)[:-1] + b',"steps":['
        for index, step in enumerate(steps):
            yield (b"," if index else b"") + jsontext.dumps(step.to_json())
        yield b"]}\n"

    def content_hash(self) -> bytes:
        """SHA-256 of its content, regardless of key order: two equal records are the same trajectory.

        The policy, the id, and the timings count, so identical repeated trials remain distinct.
        """
        return hashlib.sha256(jsontext.canonical(self.to_json())).digest()


# JSON parser of a field, by type. Fields of other types are parsed by their class.
READERS: dict[Any, Callable[[Json], Any]] = {
    str: text,
    str | None: lambda value: text(value) or None,
    bool: lambda value: flag(value) or False,
    bool | None: flag,
    float | None: number,
    Reward: reward_of,
    int | None: count,
    Json: lambda value: value or {},
    JsonObject: mapping,
}


@cache
def _readers(cls: type) -> tuple[tuple[str, Callable[[Json], Any]], ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple((field.name, READERS[hints[field.name]]) for field in fields(cls) if hints[field.name] in READERS)


def _read(cls: type, data: JsonObject) -> JsonObject:
    return {name: read(data[name]) for name, read in _readers(cls) if name in data}


@cache
def names_of(cls: type) -> tuple[str, ...]:
    """The fields of one of these classes, in the order of their declaration."""
    return tuple(field.name for field in fields(cls))


def _written(record: object, cls: type) -> JsonObject:
    return {name: getattr(record, name) for name in names_of(cls)}
