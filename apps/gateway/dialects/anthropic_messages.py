"""Anthropic's Messages. No server that speaks it returns token ids: vLLM converts each request to a chat completion, and omits them from the reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.gateway.dialects.dialect import MAX_ITEMS, Dialect, ReplyContext, Usage, count, few, named_event
from apps.gateway.kept_values import KeptValues, NoEvent
from apps.gateway.refusals import GatewayRefusal
from apps.gateway.splits.blind_replies import hidden_message, keep
from apps.gateway.token_capture import Tokens
from contract import jsontext
from contract.values import Json, mapping

NO_IDS = "Anthropic's /v1/messages has no token ids."
VERSION = "2023-06-01"
MAX_HEADER_LENGTH = 500
JOINED = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
BLOCK = {
    *("type", "text", "id", "name", "input", "thinking", "signature", "data", "citations"),
    *("tool_use_id", "content", "is_error"),
}
MESSAGE = {"type", "role", "content", "stop_reason", "stop_sequence", "usage"}
EVENT = {"type", "message", "index", "content_block", "delta", "usage"}
DELTA = {"type", "text", "partial_json", "thinking", "signature", "stop_reason", "stop_sequence", "citation"}
USAGE = ("input_tokens", "output_tokens")
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


class AnthropicMessages(Dialect):
    name = "messages"
    path = "messages"
    title = "Anthropic's Messages (/v1/messages)"
    nothing_read = "The policy's server sent something that isn't a message of Anthropic's protocol."
    takes_api_key = True
    fields_stored_apart = ("messages", "tools", "system")

    def __init__(self, body: dict[str, Any], context: ReplyContext) -> None:
        super().__init__(body, context)
        self._assembly = StreamedMessage()
        self._counted: dict[str, Any] = {}

    @staticmethod
    def problem_of(body: dict[str, Any]) -> str:
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            return 'Expected {"model": …, "max_tokens": …, "messages": [{"role": "user", "content": …}, …]}.'
        if not all(isinstance(message, dict) for message in messages):
            return "Each of `messages` is an object with `role` and `content`."
        return ""

    @classmethod
    def session_fields(cls, body: dict[str, Any]) -> dict[str, Any]:
        return {"user": mapping(body.get("metadata")).get("user_id"), **super().session_fields(body)}

    @staticmethod
    def messages_of(body: dict[str, Any]) -> list[dict[str, Any]]:
        system = [{"role": "system", "content": body["system"]}] if body.get("system") else []
        return [*system, *body["messages"]]

    @staticmethod
    def normalized(item: Json) -> Json:
        """The item without reasoning and cache markers, which agents move at each turn."""
        if not isinstance(item, dict):
            return item
        if item.get("role") == "system":
            return None
        content = item.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        content_blocks = [_normalized_block(block) for block in blocks]
        return [item.get("role"), [block for block in content_blocks if block is not None]]

    @property
    def tokens(self) -> Tokens:
        return Tokens(problem=NO_IDS)

    def request(self, *, model: str, sampling: Mapping[str, Any], supports_token_ids: bool) -> dict[str, Any]:
        self._assembly, self._counted = StreamedMessage(), {}
        return {**self.body, **sampling, "model": model}

    def headers(self, request_headers: Mapping[str, str]) -> dict[str, str]:
        headers = {"anthropic-version": VERSION}
        for name in ("anthropic-version", "anthropic-beta"):
            value = request_headers.get(name, "")
            if value and len(value) <= MAX_HEADER_LENGTH and value.isascii() and value.isprintable():
                headers[name] = value
        return headers

    def process_reply(self, reply: dict[str, Any]) -> None:
        if not few(reply.get("content")) or reply.get("role") != "assistant":
            raise NoEvent
        self.usage = self.usage_of(reply)
        self._show(reply)

    def process_chunk(self, piece: dict[str, Any]) -> bytes:
        if not isinstance(piece.get("type"), str):
            raise NoEvent
        if piece["type"] == "message_start":
            if not isinstance(piece.get("message"), dict):
                raise NoEvent
            self._count(piece["message"])
            self._show(piece["message"])
        self._count(piece)
        if self.context.is_blind:
            if piece["type"] == "ping":
                return b""  # not all servers send them
            _hide_in_event(piece)
        self._assembly.add(piece)
        return named_event(piece)

    def _count(self, holder: dict[str, Any]) -> None:
        if news := mapping(holder.get("usage")):
            self._counted |= {name: value for name, value in news.items() if value is not None}
            self.usage = self.usage_of({"usage": self._counted})

    def _show(self, message: dict[str, Any]) -> None:
        if self.context.is_blind:
            keep(message, MESSAGE, but={"content", "stop_reason", "stop_sequence"})
            message["id"] = f"msg_{self.context.id.hex}"
            blocks = message.get("content")
            for block in blocks if isinstance(blocks, list) else []:
                if isinstance(block, dict):
                    keep(block, BLOCK)
            if isinstance(usage := message.get("usage"), dict):
                message["usage"] = _bare_usage(usage)
        message["model"] = self.context.model

    @property
    def has_ended(self) -> bool:
        return self._assembly.has_ended

    @property
    def is_over(self) -> bool:
        return self._assembly.is_over

    def ending(self) -> bytes:
        return b"" if self._assembly.is_over else named_event({"type": "message_stop"})

    def reply(self) -> dict[str, Any]:
        return self._assembly.message()

    @staticmethod
    def usage_of(reply: dict[str, Any]) -> Usage:
        """Anthropic counts tokens read from or written to a cache separately from `input_tokens`."""
        usage = mapping(reply.get("usage"))
        read = count(usage.get("input_tokens"))
        cached = count(usage.get("cache_read_input_tokens"))
        if read is not None:
            read += (cached or 0) + (count(usage.get("cache_creation_input_tokens")) or 0)
        return Usage(count(read), count(usage.get("output_tokens")), cached)

    @staticmethod
    def items_of(reply: dict[str, Any]) -> list[Json]:
        return [{"role": "assistant", "content": reply.get("content")}]

    @staticmethod
    def end_of(reply: dict[str, Any]) -> Json:
        return reply.get("stop_reason")

    def stream_of(self, reply: dict[str, Any]) -> bytes:
        usage = mapping(reply.get("usage"))
        start = {**reply, "content": [], "stop_reason": None, "stop_sequence": None}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
        for index, block in enumerate(reply.get("content") or []):
            begun, deltas = _in_pieces(block)
            events.append({"type": "content_block_start", "index": index, "content_block": begun})
            events += ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
            events.append({"type": "content_block_stop", "index": index})
        end = {name: reply.get(name) for name in ("stop_reason", "stop_sequence")}
        events += [{"type": "message_delta", "delta": end, "usage": usage}, {"type": "message_stop"}]
        return b"".join(map(named_event, events))

    @staticmethod
    def withheld(content: str) -> dict[str, Any]:
        return {"type": "message", "role": "assistant", "content": [{"type": "text", "text": content}]}

    @classmethod
    def refused(cls, refusal: GatewayRefusal) -> dict[str, Any]:
        return _error(refusal.status, str(refusal))

    @classmethod
    def event_of(cls, error: dict[str, Any]) -> bytes:
        return named_event(error)

    @classmethod
    def hidden(cls, content: bytes, status: int) -> bytes:
        hidden = hidden_message(content, status)
        message = f"prompt is too long: {hidden.message}" if hidden.code else hidden.message  # as agents know it
        return jsontext.dumps(_error(hidden.status, message))


class StreamedMessage:
    """Assembles the message from events, in time proportional to their size."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, _Block] = {}
        self._kept = KeptValues()
        self.has_ended = False
        self.is_over = False

    def add(self, event: dict[str, Any]) -> None:
        """Add an event. Raises NoEvent if it doesn't fit."""
        try:
            self._add(event)
        except (AttributeError, LookupError, TypeError, ValueError):
            raise NoEvent from None

    def _add(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        if kind == "message_start":
            self._put(event["message"])
            self._count(event["message"].get("usage"))
        elif kind == "content_block_start":
            if len(self._blocks) == MAX_ITEMS:
                raise NoEvent
            self._blocks[int(event["index"])] = _Block(dict(event["content_block"]), self._kept)
        elif kind == "content_block_delta":
            self._blocks[int(event["index"])].add(event["delta"])
        elif kind == "message_delta":
            self._put(event["delta"])
            self._count(event.get("usage"))
            self.has_ended = self.has_ended or bool(self._message.get("stop_reason"))
        elif kind == "message_stop":
            self.has_ended = self.is_over = True

    def _put(self, fields: dict[str, Any]) -> None:
        for name, value in fields.items():
            self._kept.put(self._message, name, value)

    def _count(self, usage: Json) -> None:
        for name, value in mapping(usage).items():
            if value is not None:
                self._kept.put(self._usage, name, value)

    def message(self) -> dict[str, Any]:
        """The message."""
        if not self._message:
            raise NoEvent
        content = [self._blocks[index].whole() for index in sorted(self._blocks)]
        return {**self._message, "content": content, "usage": self._usage}


class _Block:
    def __init__(self, begun: dict[str, Any], kept: KeptValues) -> None:
        self._kept = kept
        self._block: dict[str, Any] = {}
        for name, value in begun.items():
            kept.put(self._block, name, value)
        self._citations: list[Json] = []
        kept.extend(self._citations, begun.get("citations") or [])
        self._texts: dict[str, list[str]] = {}
        self._json: list[str] = []

    def add(self, delta: dict[str, Any]) -> None:
        kind = delta.get("type")
        if kind == "input_json_delta":
            self._json.append(_text(delta["partial_json"]))
        elif kind == "citations_delta":
            self._kept.extend(self._citations, [delta["citation"]])
        elif name := JOINED.get(str(kind)):
            begun = [_text(self._block.get(name) or "")]
            self._texts.setdefault(name, begun).append(_text(delta[name]))

    def whole(self) -> dict[str, Any]:
        block = self._block | {name: "".join(pieces) for name, pieces in self._texts.items()}
        if self._citations:
            block["citations"] = self._citations
        if written := "".join(self._json):
            try:
                block["input"] = jsontext.parse(written)
            except jsontext.UnreadableJSON:  # as the policy wrote it
                block["input"] = written
        return block


def _normalized_block(block: Json) -> Json:
    """None for empty blocks and reasoning."""
    if not isinstance(block, dict):
        return block
    kind = block.get("type")
    if kind == "text":
        return block.get("text") or None
    if kind in ("thinking", "redacted_thinking"):
        return None
    if kind == "tool_use":
        return {"call": [block.get("id"), block.get("name"), block.get("input") or {}]}
    if kind == "tool_result":
        return {"result": [block.get("tool_use_id"), _normalized_content(block.get("content"))]}
    return {name: value for name, value in block.items() if name not in ("cache_control", "citations")}


def _normalized_content(content: Json) -> Json:
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return [normalized for block in blocks if (normalized := _normalized_block(block)) is not None]


def _hide_in_event(event: dict[str, Any]) -> None:
    keep(event, EVENT, but={"index"})
    if isinstance(block := event.get("content_block"), dict):
        keep(block, BLOCK, but={"text", "thinking", "input"})
    if isinstance(delta := event.get("delta"), dict):
        keep(delta, DELTA, but={"stop_reason", "stop_sequence"})
    if isinstance(usage := event.get("usage"), dict):
        event["usage"] = _bare_usage(usage)


def _bare_usage(usage: dict[str, Any]) -> dict[str, Any]:
    return {name: usage[name] for name in USAGE if usage.get(name) is not None}


def _in_pieces(block: Json) -> tuple[Json, list[dict[str, Any]]]:
    """A block's start, and its remaining content."""
    if not isinstance(block, dict):
        return block, []
    if block.get("type") == "tool_use":
        written = block.get("input")
        text = written if isinstance(written, str) else jsontext.dumps(written or {}).decode()
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": text}]
    begun, deltas = dict(block), []
    for kind, name in JOINED.items():
        if isinstance(block.get(name), str) and block[name]:
            begun[name] = ""
            deltas.append({"type": kind, name: block[name]})
    return begun, deltas


def _error(status: int, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": KINDS.get(status, "api_error"), "message": message}}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise NoEvent
    return value
