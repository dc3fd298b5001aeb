"""What acts in an environment, whatever it runs on."""

from dataclasses import dataclass, field
from typing import Protocol

from contract.messages import Message, ToolSchema
from contract.trajectory import Task
from contract.values import JsonObject


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


class ServerAway(Exception):
    """The server behind the policy died, which says nothing of the policy. The episode isn't kept, and is played again."""


class Agent(Protocol):
    """A policy in one episode."""

    async def act(self, chat: list[Message], tools: list[ToolSchema], *, max_tokens: int) -> Turn:
        """The next assistant message. Raises PolicyError, ServerAway."""
        ...


class Policy(Protocol):
    """Something that can act in many episodes at once."""

    @property
    def name(self) -> str: ...

    @property
    def away(self) -> str:
        """Why it can't act at this moment; empty where it can."""
        ...

    async def ready(self) -> None:
        """Return once it can act. Raises RunFailure where it never will."""
        ...

    def begin(self, task: Task, seed: int) -> Agent: ...

    async def close(self) -> None: ...
