"""The interface of policies, independent of the engine."""

from dataclasses import dataclass, field
from typing import Protocol

from contract.messages import Message, ToolSchema
from contract.trajectory import Task
from contract.values import JsonObject


@dataclass(frozen=True)
class Turn:
    """One assistant message with details of its generation."""

    message: Message
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: str | None = None
    """The policy tried to call a tool, but its output can't be parsed as a call."""
    info: JsonObject = field(default_factory=dict)
    """`token_ids` and `logprobs` of the message (nats, at temperature 1) if the engine provides them."""


class PolicyError(Exception):
    """The policy can't answer this chat. The episode ends and is kept; others continue."""


class ServerAway(Exception):
    """The server behind the policy died, which isn't the policy's fault. The episode is dropped and replayed."""


class Agent(Protocol):
    """A policy in one episode."""

    async def act(self, chat: list[Message], tools: list[ToolSchema], *, max_tokens: int) -> Turn:
        """The next assistant message. Raises PolicyError, ServerAway."""
        ...


class Policy(Protocol):
    """A policy that can act in many concurrent episodes."""

    @property
    def name(self) -> str: ...

    @property
    def away(self) -> str:
        """Why it can't act at the moment; empty if it can."""
        ...

    async def ready(self) -> None:
        """Return once it can act. Raises RunFailure if it never will."""
        ...

    def begin(self, task: Task, seed: int) -> Agent: ...

    async def close(self) -> None: ...
