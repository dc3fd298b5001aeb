"""The interface of a protocol. Pure: no access to a database or a connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple
from uuid import UUID

from apps.gateway.kept_values import MAX_VALUES, NoEvent
from apps.gateway.refusals import GatewayRefusal
from apps.gateway.splits.blind_replies import hidden_error
from apps.gateway.token_capture import Tokens
from contract import jsontext
from contract.outgoing.replies import error_in
from contract.quoting import legible
from contract.values import Json, mapping

MAX_ITEMS = 1000
"""Maximum blocks of a message, items of a response, or tool calls of a completion. With more, pages and finishing a session take minutes."""


class Usage(NamedTuple):
    """Token counts by the server; None if missing or invalid."""

    read: int | None = None
    """Prompt tokens, including cached ones."""
    written: int | None = None
    cached: int | None = None
    """How many of the prompt tokens came from a cache."""


class ReplyContext(NamedTuple):
    """The parts of a request that its replies must reflect."""

    id: UUID
    model: str
    """The model name that the agent requested."""
    created: int
    """Unix seconds."""
    is_blind: bool
    """The agent must not learn which policy of a split answers."""


class Dialect(ABC):
    """One call in one protocol: its request, and its reply, complete or as a stream of chunks."""

    name: ClassVar[str]
    path: ClassVar[str]
    """Path below `/v1/`, here and on the policy's server."""
    title: ClassVar[str]
    nothing_read: ClassVar[str]
    """Error message for a response that isn't a valid reply."""
    is_everywhere: ClassVar[bool] = False
    """Supported by every model server, including this installation's own."""
    takes_api_key: ClassVar[bool] = False
    """Some servers expect the key in `x-api-key`."""
    fields_stored_apart: ClassVar[tuple[str, ...]]
    """Request fields that aren't stored with it, except as messages and tools."""

    def __init__(self, body: dict[str, Any], context: ReplyContext) -> None:
        self.body, self.context = body, context
        self.usage = Usage()
        """Usage counted so far. A blind agent may not be shown all of it."""

    @staticmethod
    @abstractmethod
    def problem_of(body: dict[str, Any]) -> str:
        """Why a body isn't a valid request, in a sentence; "" if it is."""

    @classmethod
    def session_fields(cls, body: dict[str, Any]) -> dict[str, Any]:
        """The fields of a request that concern its session: `model`, `messages`, and, if present, `metadata` and `user`."""
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
    def normalized(item: Json) -> Json:
        """The content of a chat item without what client libraries add or drop; None if it's ignored."""

    @property
    @abstractmethod
    def tokens(self) -> Tokens:
        """Tokens of the reply so far."""

    @abstractmethod
    def request(self, *, model: str, sampling: Mapping[str, Any], supports_token_ids: bool) -> dict[str, Any]:
        """The request for the policy's server. Resets the reply."""

    def headers(self, request_headers: Mapping[str, str]) -> dict[str, str]:
        """Which of the agent's headers are also sent to the server."""
        return {}

    @abstractmethod
    def process_reply(self, reply: dict[str, Any]) -> None:
        """Process a complete reply in place: record it, remove what the agent didn't request, and make it the agent's. Raises NoEvent."""

    @abstractmethod
    def process_chunk(self, piece: dict[str, Any]) -> bytes:
        """Like `process_reply`, for a chunk of a stream; returns it as sent to the agent, b"" if nothing is sent. Raises NoEvent."""

    @property
    @abstractmethod
    def has_ended(self) -> bool:
        """Whether the reply is complete; the chunk that completes it is held back until the call is stored."""

    @property
    def is_over(self) -> bool:
        """Whether nothing follows this chunk."""
        return False

    def ending(self) -> bytes:
        """The end of a stream."""
        return b""

    @abstractmethod
    def reply(self) -> dict[str, Any]:
        """The reply assembled from the chunks, once it has ended."""

    @staticmethod
    def failure_in(reply: dict[str, Any]) -> str:
        """The error reported in a reply or a chunk; "" if there is none."""
        if not (error := reply.get("error")):
            return ""
        return error_in(jsontext.dumps(reply)) or legible(str(mapping(error).get("message") or "The server failed."))

    @staticmethod
    @abstractmethod
    def usage_of(reply: dict[str, Any]) -> Usage: ...

    @staticmethod
    @abstractmethod
    def items_of(reply: dict[str, Any]) -> list[Json]:
        """The items that a reply adds to the chat, as the agent will send them back."""

    @staticmethod
    @abstractmethod
    def end_of(reply: dict[str, Any]) -> Json:
        """The stop reason, in the protocol's terms."""

    @abstractmethod
    def stream_of(self, reply: dict[str, Any]) -> bytes:
        """A complete reply as a complete stream."""

    @staticmethod
    def withheld(content: str) -> dict[str, Any]:
        """A reply whose only content is this text."""
        return {
            "object": "chat.completion",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": content}}],
        }

    @classmethod
    def refused(cls, refusal: GatewayRefusal) -> dict[str, Any]:
        """A refusal in the protocol's form."""
        return refusal.body()

    @classmethod
    def passed_on(cls, piece: dict[str, Any]) -> bytes:
        """A chunk of a stream, unchanged."""
        return cls.event_of(piece)

    @classmethod
    def event_of(cls, error: dict[str, Any]) -> bytes:
        """An error in a stream."""
        return b"data: " + jsontext.dumps(error) + b"\n\n"

    @classmethod
    def hidden(cls, content: bytes, status: int) -> bytes:
        """An error of a split's policy in the protocol's form, reduced to its kind."""
        return hidden_error(content, status)


def piece_from(data: bytes) -> dict[str, Any]:
    """A JSON object of bounded size. Raises NoEvent."""
    if jsontext.has_more_values(data, MAX_VALUES):
        raise NoEvent
    try:
        piece = jsontext.loads(data)
    except jsontext.UnreadableJSON:
        raise NoEvent from None
    if not isinstance(piece, dict):
        raise NoEvent
    return piece


def few(items: Json) -> bool:
    """Whether it's a list within the size limit of a reply."""
    return isinstance(items, list) and len(items) <= MAX_ITEMS


def named_event(piece: dict[str, Any]) -> bytes:
    """A chunk as an event, for protocols with named events. The name stays on one line, whatever the server sent."""
    return (
        b"event: " + legible(str(piece.get("type") or "error")).encode() + b"\ndata: " + jsontext.dumps(piece) + b"\n\n"
    )


def count(value: Json) -> int | None:
    """A valid token count; None otherwise."""
    return value if type(value) is int and 0 <= value < 2**31 else None
