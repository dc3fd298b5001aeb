"""What the gateway asks of a protocol, whichever it is. Pure: nothing here knows a database or a connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple
from uuid import UUID

from apps.gateway.refusals import GatewayRefusal
from apps.gateway.splits.blind_replies import hidden_error
from apps.gateway.streamed_reply import MOST_VALUES, NoEvent
from apps.gateway.token_capture import Tokens
from contract import jsontext
from contract.outgoing.replies import error_in
from contract.quoting import legible
from contract.values import Json, mapping


class Usage(NamedTuple):
    """What a server counted; None where it didn't, or counted what can't be."""

    read: int | None = None
    """Tokens of the prompt, those from a cache included."""
    written: int | None = None
    cached: int | None = None
    """How many of those read came from a cache."""


class Asked(NamedTuple):
    """Of one call, what its replies have to show."""

    id: UUID
    model: str
    """The name that the agent asked for."""
    created: int
    """Unix seconds."""
    is_blind: bool
    """The agent may not tell which policy of a split answers."""


class Dialect(ABC):
    """One call in one protocol: its request, and its reply, whole or as it comes in pieces."""

    name: ClassVar[str]
    path: ClassVar[str]
    """Below `/v1/`, here and at the policy's server."""
    title: ClassVar[str]
    nothing_read: ClassVar[str]
    """What is said where the server sent something else than a reply."""
    is_everywhere: ClassVar[bool] = False
    """Every server of models speaks it, this installation's own included."""
    takes_api_key: ClassVar[bool] = False
    """The key may have to stand in `x-api-key`."""
    apart: ClassVar[tuple[str, ...]]
    """Names in a request that aren't stored with it, but as messages and tools."""

    def __init__(self, body: dict[str, Any], asked: Asked) -> None:
        self.body, self.asked = body, asked
        self.usage = Usage()
        """As far as it was counted. Not all of it may be for a blind agent."""

    @staticmethod
    @abstractmethod
    def problem_of(body: dict[str, Any]) -> str:
        """Why a body is no request, in a sentence; "" where it is one."""

    @classmethod
    def about(cls, body: dict[str, Any]) -> dict[str, Any]:
        """What a request says of the session that it is of: `model`, `messages`, and where they stand in it `metadata` and `user`."""
        names = ("model", "metadata", "user")
        return {name: body[name] for name in names if name in body} | {"messages": cls.messages_of(body)}

    @staticmethod
    @abstractmethod
    def messages_of(body: dict[str, Any]) -> list[dict[str, Any]]:
        """The chat of a request, system prompt first, in the protocol's own items."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.messages_of(self.body)

    @staticmethod
    @abstractmethod
    def said(item: Json) -> Json:
        """What an item of the chat says, without what libraries add or leave out; None where it doesn't count."""

    @property
    @abstractmethod
    def tokens(self) -> Tokens:
        """Of the reply so far."""

    @abstractmethod
    def request(self, *, model: str, sampling: Mapping[str, Any], speaks_ids: bool) -> dict[str, Any]:
        """What the policy's server is sent. Begins the reply anew."""

    def headers(self, given: Mapping[str, str]) -> dict[str, str]:
        """More of those that the server is sent, of the agent's."""
        return {}

    @abstractmethod
    def take_reply(self, reply: dict[str, Any]) -> None:
        """Look at a whole reply, take out what the agent didn't ask for, and make it what the agent gets. Raises NoEvent."""

    @abstractmethod
    def take_piece(self, piece: dict[str, Any]) -> bytes:
        """The same of a piece of a stream; as it is sent on, b"" where there's nothing to send. Raises NoEvent."""

    @property
    @abstractmethod
    def has_ended(self) -> bool:
        """Whether the pieces so far are all of the reply; what comes along with its end waits until the call is stored."""

    @property
    def is_over(self) -> bool:
        """Nothing comes after this piece."""
        return False

    def ending(self) -> bytes:
        """What ends a stream."""
        return b""

    @abstractmethod
    def reply(self) -> dict[str, Any]:
        """What the pieces amount to, once it has ended."""

    @staticmethod
    def failure_in(reply: dict[str, Any]) -> str:
        """Why a reply, or a piece of one, tells of a failure; "" where it doesn't."""
        if not (error := reply.get("error")):
            return ""
        return error_in(jsontext.dumps(reply)) or legible(str(mapping(error).get("message") or "The server failed."))

    @staticmethod
    @abstractmethod
    def usage_of(reply: dict[str, Any]) -> Usage: ...

    @staticmethod
    @abstractmethod
    def items_of(reply: dict[str, Any]) -> list[Json]:
        """What a reply adds to the chat, as the agent will send it back."""

    @staticmethod
    @abstractmethod
    def end_of(reply: dict[str, Any]) -> Json:
        """Why it stopped, in the protocol's words."""

    @abstractmethod
    def stream_of(self, reply: dict[str, Any]) -> bytes:
        """A whole reply in the form of a stream, to its end."""

    @staticmethod
    def withheld(words: str) -> dict[str, Any]:
        """A reply that says nothing but that."""
        return {
            "object": "chat.completion",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": words}}],
        }

    @classmethod
    def refused(cls, refusal: GatewayRefusal) -> dict[str, Any]:
        """A refusal in the protocol's form."""
        return refusal.body()

    @classmethod
    def passed_on(cls, piece: dict[str, Any]) -> bytes:
        """A piece of a stream as it came."""
        return cls.event_of(piece)

    @classmethod
    def event_of(cls, error: dict[str, Any]) -> bytes:
        """An error in a stream."""
        return b"data: " + jsontext.dumps(error) + b"\n\n"

    @classmethod
    def hidden(cls, content: bytes, status: int) -> bytes:
        """An error of a split's policy, in the protocol's form, with its kind alone."""
        return hidden_error(content, status)


def piece_from(data: bytes) -> dict[str, Any]:
    """A JSON object of bounded size. Raises NoEvent."""
    if jsontext.has_more_values(data, MOST_VALUES):
        raise NoEvent
    try:
        piece = jsontext.loads(data)
    except jsontext.UnreadableJSON:
        raise NoEvent from None
    if not isinstance(piece, dict):
        raise NoEvent
    return piece


def named_event(piece: dict[str, Any]) -> bytes:
    """A piece as those protocols send it that name their events."""
    return b"event: " + str(piece.get("type") or "error").encode() + b"\ndata: " + jsontext.dumps(piece) + b"\n\n"


def count(value: Json) -> int | None:
    """A number of tokens that a server counted."""
    return value if type(value) is int and 0 <= value < 2**31 else None
