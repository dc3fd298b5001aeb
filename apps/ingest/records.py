"""A trajectory in its canonical form, as every format is read into and as Retrace's own JSON Lines spell it.

Concatenating the steps' `context` and `message`, then `closing`, gives back the chat. `context` is what the agent was shown and
is never trained on; `message` is what the policy produced.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from contract import jsontext

Json = Any
Message = dict[str, Any]


def text_of(content: Json, *, first: int | None = None) -> str:
    """The words of a message's content, whatever its shape; only the beginning, where `first` says how much is enough."""
    if type(content) is str:
        return content if first is None else content[:first]
    if type(content) is list:
        parts = (part.get("text") or f"[{part.get('type', 'part')}]" for part in content if type(part) is dict)
        text = "\n".join(part if type(part) is str else jsontext.dumps(part).decode() for part in parts)
        return text if first is None else text[:first]
    return ""


class BadRow(ValueError):
    """A record that cannot become a trajectory: why, and what was expected in its place."""

    def __init__(self, reason: str, expected: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.expected = expected


class BadParts(BadRow):
    """Some runs of a record cannot become trajectories; those that were given before this is raised do."""


@dataclass(slots=True)
class TaskRecord:
    """What the agent was asked to do. `environment` and `key` name it within a workspace."""

    key: str
    instruction: str = ""
    environment: str = ""
    initial_state: Json = field(default_factory=dict)
    success_check: Json = field(default_factory=dict)
    category: str = ""
    difficulty: str = ""
    held_out: bool = False


@dataclass(slots=True)
class StepRecord:
    """One agent turn."""

    context: list[Message]
    message: Message
    reward: float | None = None
    done: bool = False
    error: str | None = None
    seconds: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    info: dict[str, Json] = field(default_factory=dict)


@dataclass(slots=True)
class TrajectoryRecord:
    """One attempt at a task. `reward` and `success` stay None where the source does not say."""

    task: TaskRecord
    steps: list[StepRecord]
    closing: list[Message] = field(default_factory=list)
    tools: list[Json] = field(default_factory=list)
    policy: str | None = None
    external_id: str = ""
    reward: float | None = None
    success: bool | None = None
    termination: str = ""
    tags: list[str] = field(default_factory=list)
    info: dict[str, Json] = field(default_factory=dict)
    part: Json = None
    """Of a source's record that holds several runs, what is this one's: kept as its original instead of the whole, once for each."""

    def messages(self) -> Iterator[Message]:
        """The chat, in order."""
        for step in self.steps:
            yield from step.context
            yield step.message
        yield from self.closing

    def as_json(self) -> dict[str, Json]:
        """The rich form of Retrace's own JSON Lines."""
        task = self.task
        return {
            "format": "retrace/1",
            "id": self.external_id,
            "task": {
                "key": task.key,
                "instruction": task.instruction,
                "environment": task.environment,
                "initial_state": task.initial_state,
                "success_check": task.success_check,
                "category": task.category,
                "difficulty": task.difficulty,
                "held_out": task.held_out,
            },
            "policy": self.policy,
            "tools": self.tools,
            "steps": [
                {
                    "context": step.context,
                    "message": step.message,
                    "reward": step.reward,
                    "done": step.done,
                    "error": step.error,
                    "seconds": step.seconds,
                    "prompt_tokens": step.prompt_tokens,
                    "completion_tokens": step.completion_tokens,
                    "info": step.info,
                }
                for step in self.steps
            ],
            "closing": self.closing,
            "outcome": {"reward": self.reward, "success": self.success, "termination": self.termination},
            "tags": self.tags,
            "info": self.info,
        }

    def content_hash(self) -> bytes:
        """SHA-256 of everything the record says, whatever the order of its keys: two equal records are one trajectory.

        The policy, the external id and the timings count, so repeated trials that happen to say the same stay apart.
        """
        return hashlib.sha256(jsontext.canonical(self.as_json())).digest()


T = TypeVar("T")
MOST_NAMED = 20
"""Runs of one record whose refusals are told one by one."""


def numbered(called: str, parts: Iterable[T]) -> list[tuple[str, T]]:
    """The parts of a record with their names: “Sample 1”, “Sample 2”, …"""
    return [(f"{called} {place}", part) for place, part in enumerate(parts, start=1)]


def read_each(
    parts: Sequence[tuple[str, T]], read: Callable[[T], Iterable[TrajectoryRecord]]
) -> Iterator[TrajectoryRecord]:
    """The runs of a record that holds several, by their names. One that cannot be read keeps no other from coming in. Raises BadParts."""
    refusals: list[BadRow] = []
    for name, part in parts:
        try:
            for record in read(part):
                if len(parts) > 1:
                    record.part = part
                yield record
        except BadRow as refusal:
            refusals.append(BadRow(f"{name}: {refusal.reason}", refusal.expected))
    if refusals:
        told = " ".join(refusal.reason for refusal in refusals[:MOST_NAMED])
        rest = f" ({len(refusals)} of {len(parts)} could not be read.)" if len(parts) > 1 else ""
        raise BadParts(told + rest, refusals[0].expected)
