"""Chats in the form of Gemini's API: `contents` of `parts`, in tuning files and in logged requests with their responses."""

from __future__ import annotations

from collections.abc import Iterator

from apps.ingest.formats import Format
from apps.ingest.normalization.chat import Chat, chat_trajectory
from apps.ingest.normalization.fields import first_of, mapping, text
from apps.ingest.records import BadRow, Json, TrajectoryRecord
from apps.ingest.traces.payloads import read_payload, tools_offered
from contract import jsontext

SHAPE = "`contents`, a list of objects with `role` and `parts`, alone or in a `request` beside its `response`"

OTHERS = frozenset({"type", "part_kind"})
"""Keys that give a part's type in messages of the Vercel AI SDK and Pydantic AI; Gemini's parts don't have them."""


def _request(row: Json) -> dict[str, Json] | None:
    """The object that holds the contents."""
    if type(row) is list:
        row = {"contents": row}
    for holder in (row, mapping(row).get("request")):
        contents = mapping(holder).get("contents")
        parts = mapping(contents[0]).get("parts") if type(contents) is list and contents else None
        if type(parts) is list and OTHERS.isdisjoint(key for part in parts for key in mapping(part)):
            return mapping(holder)
    return None


def _accepts(row: Json) -> bool:
    return _request(row) is not None


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    request = _request(row)
    if request is None:
        raise BadRow(f"The record is {jsontext.describe(row)} without contents.", f"{SHAPE}.")
    fields = mapping(row)
    response = mapping(fields.get("response"))
    system = read_payload(first_of(request, "systemInstruction", "system_instruction"), "system").messages
    messages = [
        *({**message, "role": "system"} for message in system),
        *read_payload(request["contents"], "user").messages,
        *(read_payload(response, "assistant").messages if response.get("candidates") else []),
    ]
    used_keys = ("contents", "systemInstruction", "system_instruction", "request", "response", "tools")
    rest = {key: value for key, value in {**request, **fields}.items() if key not in used_keys}
    used = mapping(first_of(response, "usageMetadata", "usage_metadata"))
    if used:
        rest["usage"] = {
            "prompt_tokens": first_of(used, "promptTokenCount", "prompt_token_count"),
            "completion_tokens": first_of(used, "candidatesTokenCount", "candidates_token_count"),
        }
    if tools := tools_offered(request.get("tools")):
        rest["tools"] = tools
    if model := text(first_of(response, "modelVersion", "model_version")):
        rest.setdefault("model", model)
    yield chat_trajectory(Chat(rest, messages, ()))


FORMAT = Format(
    name="gemini",
    title="Gemini contents",
    shape=SHAPE,
    keys=("contents.parts", "request.contents.parts", "[].parts"),
    accepts=_accepts,
    read=_read,
)
