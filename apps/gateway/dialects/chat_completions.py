"""OpenAI's chat completions, supported by every model server; with token ids if the server returns them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.gateway.dialects.dialect import Dialect, ReplyContext, Usage, count
from apps.gateway.kept_values import NoEvent
from apps.gateway.splits.blind_replies import hide
from apps.gateway.streamed_reply import MAX_CHOICES, MAX_TOOL_CALLS, StreamedReply
from apps.gateway.token_capture import Capture, Tokens
from contract.chat_digests import normalized
from contract.completion_chunks import event, event_stream
from contract.values import Json, mapping


class ChatCompletions(Dialect):
    name = "chat"
    path = "chat/completions"
    title = "OpenAI's chat completions (/v1/chat/completions)"
    nothing_read = "The policy's server sent something that isn't a chat completion."
    is_everywhere = True
    fields_stored_apart = ("messages", "tools")

    def __init__(self, body: dict[str, Any], context: ReplyContext) -> None:
        super().__init__(body, context)
        self._capture = Capture(body, supports_token_ids=False)
        self._assembly = StreamedReply()

    @staticmethod
    def problem_of(body: dict[str, Any]) -> str:
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            return 'Expected {"model": …, "messages": [{"role": "user", "content": …}, …]}.'
        if not all(isinstance(message, dict) for message in messages):
            return "Each of `messages` is an object with `role` and `content`."
        return ""

    @staticmethod
    def messages_of(body: dict[str, Any]) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = body["messages"]
        return messages

    @staticmethod
    def normalized(item: Json) -> Json:
        return normalized(item)

    @property
    def tokens(self) -> Tokens:
        return self._capture.tokens

    def request(self, *, model: str, sampling: Mapping[str, Any], supports_token_ids: bool) -> dict[str, Any]:
        self._capture, self._assembly = Capture(self.body, supports_token_ids=supports_token_ids), StreamedReply()
        body = {**self._capture.request(self.body), **sampling, "model": model}
        if not body.get("stream"):
            body.pop("stream_options", None)  # servers refuse it on its own, and some libraries send it
        if body.get("tools") == []:
            for name in ("tools", "tool_choice", "parallel_tool_calls"):
                body.pop(name, None)
        return body

    def process_reply(self, reply: dict[str, Any]) -> None:
        try:
            is_reply = isinstance(reply["choices"][0]["message"], dict)
            is_small = len(reply["choices"]) <= MAX_CHOICES and all(map(_has_few_calls, reply["choices"]))
        except (LookupError, TypeError):
            is_reply = is_small = False
        if not (is_reply and is_small):
            raise NoEvent
        self.usage = self.usage_of(reply)
        self._capture.extract(reply)
        self._show(reply)

    def process_chunk(self, piece: dict[str, Any]) -> bytes:
        if not isinstance(piece.get("choices"), list):
            raise NoEvent
        if piece.get("usage"):
            self.usage = self.usage_of(piece)
        self._capture.extract(piece)
        self._show(piece)
        self._assembly.add(piece)
        if not self._capture.wants_usage:
            piece.pop("usage", None)
        return event(piece) if piece["choices"] or self._capture.wants_usage else b""

    def _show(self, reply: dict[str, Any]) -> None:
        if self.context.is_blind:
            hide(reply, self.context.id, created=self.context.created)
        reply["model"] = self.context.model

    @property
    def has_ended(self) -> bool:
        return self._assembly.has_ended

    def ending(self) -> bytes:
        return b"data: [DONE]\n\n"

    def reply(self) -> dict[str, Any]:
        return self._assembly.completion()

    @staticmethod
    def usage_of(reply: dict[str, Any]) -> Usage:
        usage = mapping(reply.get("usage"))
        cached = mapping(usage.get("prompt_tokens_details")).get("cached_tokens")
        return Usage(count(usage.get("prompt_tokens")), count(usage.get("completion_tokens")), count(cached))

    @staticmethod
    def items_of(reply: dict[str, Any]) -> list[Json]:
        return [{**reply["choices"][0]["message"], "role": "assistant"}]

    @staticmethod
    def end_of(reply: dict[str, Any]) -> Json:
        return reply["choices"][0].get("finish_reason")

    def stream_of(self, reply: dict[str, Any]) -> bytes:
        return event_stream(reply, with_usage=self._capture.wants_usage)


def _has_few_calls(choice: Json) -> bool:
    calls = mapping(mapping(choice).get("message")).get("tool_calls")
    return not isinstance(calls, list) or len(calls) <= MAX_TOOL_CALLS
