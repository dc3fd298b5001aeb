"""What acts in an environment, whatever it runs on."""

from dataclasses import dataclass, field
from typing import Protocol

from trainer.records import JsonObject, Message, Task, ToolSchema


@dataclass(frozen=True)
class Turn:
    """One assistant message and what is known about how it came to be."""

    message: Message
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: str | None = None
    """The policy tried to call a tool but what it wrote cannot be read as a call."""
    info: JsonObject = field(default_factory=dict)
    """`token_ids` and `logprobs` of the message (nats, at temperature 1) where the engine has them."""


class PolicyError(Exception):
    """The policy gave no answer to this chat. The episode ends and is kept; others go on."""


class Agent(Protocol):
    """A policy in one episode."""

    async def act(self, chat: list[Message], tools: list[ToolSchema], *, max_tokens: int) -> Turn:
        """The next assistant message. Raises PolicyError."""
        ...


class Policy(Protocol):
    """Something that can act in many episodes at once."""

    @property
    def name(self) -> str: ...

    def begin(self, task: Task, seed: int) -> Agent: ...

    async def close(self) -> None: ...
