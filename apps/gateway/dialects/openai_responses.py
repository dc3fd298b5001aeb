"""OpenAI's Responses. State stored at the server is refused: what isn't recorded can't be replayed, judged, or continued.

Replies have no token ids. vLLM only provides those of the text (`enable_response_messages`), and log-probabilities of `output_text`: none
of tool calls and reasoning, so an agent's calls couldn't be trained on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.gateway.dialects.dialect import MAX_ITEMS, Dialect, ReplyContext, Usage, count, few, named_event
from apps.gateway.kept_values import NoEvent
from apps.gateway.splits.blind_replies import keep
from apps.gateway.token_capture import Tokens
from contract.chat_digests import is_system
from contract.completions import arguments_of
from contract.quoting import legible
from contract.values import Json, mapping

NO_IDS = "OpenAI's /v1/responses has no token ids of all that was sampled."
ELSEWHERE = (
    *("previous_response_id", "conversation", "prompt"),
    *("previous_response", "previous_input_messages"),
)
"""Parameters that refer to a chat, or part of one, outside the request."""
TEXTS = frozenset({"input_text", "output_text", "text"})
ENDS = frozenset({"response.completed", "response.incomplete"})
RESPONSE = {"status", "incomplete_details", "output", "usage", "error"}
ECHOED = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "instructions": None, "metadata": None}
"""Request fields that a response repeats, with their defaults."""
ITEM = {
    *("type", "role", "content", "status", "name", "call_id", "arguments", "summary", "encrypted_content", "phase"),
    *("input", "action", "output", "results", "queries", "code", "result"),
}
PART = {"type", "text", "refusal", "annotations", "logprobs"}
EVENT = {
    *("type", "sequence_number", "item_id", "output_index", "content_index", "summary_index", "annotation_index"),
    *("delta", "text", "arguments", "name", "item", "part", "response", "refusal", "annotation", "logprobs"),
    *("code", "input"),
}
ALWAYS = {"delta", "text", "arguments", "refusal", "output_index", "content_index", "sequence_number", "logprobs"}
WITH_LOGPROBS = frozenset({"response.output_text.delta", "response.output_text.done"})
USAGE = ("input_tokens", "output_tokens", "total_tokens")


class OpenAIResponses(Dialect):
    name = "responses"
    path = "responses"
    title = "OpenAI's Responses (/v1/responses)"
    nothing_read = "The policy's server sent something that isn't a response of OpenAI's protocol."
    fields_stored_apart = ("input", "tools", "instructions")

    def __init__(self, body: dict[str, Any], context: ReplyContext) -> None:
        super().__init__(body, context)
        self._begin()

    def _begin(self) -> None:
        self._response: dict[str, Any] | None = None
        self._ids: dict[str, str] = {}

    @staticmethod
    def problem_of(body: dict[str, Any]) -> str:
        input_ = body.get("input")
        is_list = isinstance(input_, list) and bool(input_) and all(isinstance(item, dict) for item in input_)
        if not (isinstance(input_, str) or is_list):
            return 'Expected {"model": …, "input": "…"}, or a list of items as `input`.'
        for name in ELSEWHERE:
            if body.get(name) is not None:
                return f"The gateway records whole chats, and `{name}` names one that lies elsewhere. Send all of it as `input`."
        if body.get("background"):
            return "The gateway passes replies on as they come, so there is no `background`."
        if is_list and any(item.get("type") == "item_reference" for item in input_):  # type: ignore[union-attr]
            return "The gateway records whole chats, and an `item_reference` names what lies elsewhere. Send the item itself."
        return ""

    @staticmethod
    def messages_of(body: dict[str, Any]) -> list[dict[str, Any]]:
        input_, system_prompt = body["input"], body.get("instructions")
        system: list[dict[str, Any]] = [{"role": "system", "content": system_prompt}] if system_prompt else []
        return [*system, *([{"role": "user", "content": input_}] if isinstance(input_, str) else input_)]

    @staticmethod
    def normalized(item: Json) -> Json:
        """The item without ids, states, and reasoning."""
        if not isinstance(item, dict):
            return item
        kind = item.get("type") or "message"
        if kind == "reasoning" or is_system(item):
            return None
        if kind == "message":
            return [item.get("role"), _normalized_content(item.get("content"))]
        if kind == "function_call":
            return {"call": [item.get("call_id"), item.get("name"), arguments_of(item.get("arguments"))]}
        if kind == "function_call_output":
            return {"result": [item.get("call_id"), _normalized_content(item.get("output"))]}
        return {name: value for name, value in item.items() if name not in ("id", "status") and value is not None}

    @property
    def tokens(self) -> Tokens:
        return Tokens(problem=NO_IDS)

    def request(self, *, model: str, sampling: Mapping[str, Any], supports_token_ids: bool) -> dict[str, Any]:
        self._begin()
        return {**self.body, **sampling, "model": model}

    def process_reply(self, reply: dict[str, Any]) -> None:
        if not few(reply.get("output")):
            raise NoEvent
        self.usage = self.usage_of(reply)
        self._show(reply)

    def process_chunk(self, piece: dict[str, Any]) -> bytes:
        if not isinstance(kind := piece.get("type"), str):
            raise NoEvent
        response = piece.get("response")
        if isinstance(response, dict):
            self.usage = self.usage_of(response)
            self._show(response)
        if self.context.is_blind:
            self._hide_in_event(piece)
        if kind in ENDS:
            if not isinstance(response, dict) or not few(response.get("output")):
                raise NoEvent
            self._response = response
        return named_event(piece)

    def _show(self, response: dict[str, Any]) -> None:
        if self.context.is_blind:
            self._hide(response)
        response["model"] = self.context.model

    def _hide(self, response: dict[str, Any]) -> None:
        keep(response, RESPONSE, but=RESPONSE)
        response |= {"id": f"resp_{self.context.id.hex}", "object": "response", "created_at": self.context.created}
        response |= {name: self.body.get(name, default) for name, default in ECHOED.items()}
        for item in response.get("output") or []:
            if isinstance(item, dict):
                self._hide_in_item(item)
        if isinstance(usage := response.get("usage"), dict):
            response["usage"] = {name: usage.get(name) for name in USAGE}

    def _hide_in_item(self, item: dict[str, Any]) -> None:
        identifier = item.get("id")
        keep(item, ITEM, but={"content", "summary", "arguments"})
        if isinstance(identifier, str):
            item["id"] = self._renamed(identifier)
        for parts in (item.get("content"), item.get("summary")):
            for part in parts if isinstance(parts, list) else []:
                _hide_in_part(part)

    def _hide_in_event(self, event: dict[str, Any]) -> None:
        keep(event, EVENT, but=ALWAYS)
        if isinstance(item := event.get("item"), dict):
            self._hide_in_item(item)
        _hide_in_part(event.get("part"))
        if event["type"] in WITH_LOGPROBS:
            event["logprobs"] = event.get("logprobs") or []
        if isinstance(identifier := event.get("item_id"), str):
            event["item_id"] = self._renamed(identifier)

    def _renamed(self, identifier: str) -> str:
        """Replaces an item's id by its position, since servers' formats differ. Raises NoEvent for more items than a reply may have."""
        if len(self._ids) == MAX_ITEMS and identifier not in self._ids:
            raise NoEvent
        return self._ids.setdefault(identifier, f"item_{self.context.id.hex}{len(self._ids):04}")

    @property
    def has_ended(self) -> bool:
        return self._response is not None

    @property
    def is_over(self) -> bool:
        return self.has_ended

    def reply(self) -> dict[str, Any]:
        if self._response is None:
            raise NoEvent
        return self._response

    @staticmethod
    def failure_in(reply: dict[str, Any]) -> str:
        kind = reply.get("type")
        failed = mapping(reply.get("response")) if kind == "response.failed" else reply
        if failed.get("status") == "failed" or kind == "error" or reply.get("error"):
            error = mapping(failed.get("error")) or failed
            return legible(str(error.get("message") or "The server failed."))
        return ""

    @staticmethod
    def usage_of(reply: dict[str, Any]) -> Usage:
        usage = mapping(reply.get("usage"))
        cached = mapping(usage.get("input_tokens_details")).get("cached_tokens")
        return Usage(count(usage.get("input_tokens")), count(usage.get("output_tokens")), count(cached))

    @staticmethod
    def items_of(reply: dict[str, Any]) -> list[Json]:
        return list(reply.get("output") or [])

    @staticmethod
    def end_of(reply: dict[str, Any]) -> Json:
        return mapping(reply.get("incomplete_details")).get("reason") or reply.get("status")

    def stream_of(self, reply: dict[str, Any]) -> bytes:
        begun = {**reply, "status": "in_progress", "output": [], "usage": None}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
        ]
        for index, item in enumerate(reply.get("output") or []):
            events += _item_in_pieces(index, mapping(item))
        events.append({"type": f"response.{reply.get('status') or 'completed'}", "response": reply})
        return b"".join(named_event({**event, "sequence_number": number}) for number, event in enumerate(events))

    @staticmethod
    def withheld(content: str) -> dict[str, Any]:
        text = {"type": "output_text", "text": content, "annotations": []}
        message = {"type": "message", "role": "assistant", "status": "completed", "content": [text]}
        return {"object": "response", "status": "completed", "output": [message]}

    @classmethod
    def passed_on(cls, piece: dict[str, Any]) -> bytes:
        return named_event(piece) if "type" in piece else cls.event_of(piece)

    @classmethod
    def event_of(cls, error: dict[str, Any]) -> bytes:
        reported = mapping(error.get("error"))
        names = ("code", "message", "param")
        return named_event({"type": "error", **{name: reported.get(name) for name in names}, "sequence_number": 0})


def _hide_in_part(part: Json) -> None:
    if isinstance(part, dict):
        keep(part, PART, but={"text", "refusal"})
        if part.get("type") == "output_text":
            part.setdefault("annotations", [])


def _normalized_content(content: Json) -> Json:
    """The text if there is nothing else; otherwise all parts."""
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") in TEXTS for part in content):
        return "".join(str(part.get("text") or "") for part in content)
    return content or ""


def _item_in_pieces(index: int, item: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of one item of the output."""
    shared = {"item_id": item.get("id") or f"item_{index}", "output_index": index}
    begun, pieces = dict(item), []
    if isinstance(item.get("content"), list):
        begun["content"] = []
        for part_index, part in enumerate(item["content"]):
            pieces += _part_in_pieces({**shared, "content_index": part_index}, mapping(part))
    if item.get("type") == "function_call":
        begun["arguments"] = ""
        arguments = item.get("arguments") or ""
        pieces.append({"type": "response.function_call_arguments.delta", **shared, "delta": arguments})
        pieces.append({"type": "response.function_call_arguments.done", **shared, "arguments": arguments})
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**begun, "status": "in_progress"}},
        *pieces,
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def _part_in_pieces(shared: dict[str, Any], part: dict[str, Any]) -> list[dict[str, Any]]:
    kind = {"output_text": ("text", "output_text"), "refusal": ("refusal", "refusal")}.get(str(part.get("type")))
    if kind is None:
        return []
    name, event = kind
    text = part.get(name) or ""
    more: dict[str, Any] = {"logprobs": []} if name == "text" else {}
    return [
        {"type": "response.content_part.added", **shared, "part": {**part, name: ""}},
        {"type": f"response.{event}.delta", **shared, "delta": text, **more},
        {"type": f"response.{event}.done", **shared, name: text, **more},
        {"type": "response.content_part.done", **shared, "part": part},
    ]
