"""Estimates the chat lengths of a version from the text of its first rows. Row sizes in bytes aren't usable: tools make up most of many rows, and small
models' templates omit them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from django.core.files.storage import default_storage

from apps.datasets.models import Split, Version
from workers.bridge.estimates import ModelShape

SAMPLED_ROWS = 100
"""Maximum number of rows sampled."""
SAMPLED_BYTES = 16 << 20
"""Maximum size of the sampled rows together. Forecasts also read the versions of other workspaces' runs, whose rows may be as long as imports allow."""
DEFAULT_TOKENS = 512
"""Default without rows."""
SMALL_VOCABULARY, SMALL_CHARACTERS = 1_000, 2.4
"""Characters per token, including special tokens, measured on office chats with a scratch model's tokenizer."""
LARGE_VOCABULARY, LARGE_CHARACTERS = 150_000, 4.0
"""Characters per token of common tokenizers, in English and code."""
TOOLS_VOCABULARY = 20_000
"""Models with larger vocabularies have a chat template that includes the tools."""


def chat_tokens(version: Version, shape: ModelShape) -> float:
    """Tokens of a typical chat: the prompt and one completion."""
    lengths = [
        length for row in _rows(version) for length in _chat_lengths(row, tools=shape.vocabulary > TOOLS_VOCABULARY)
    ]
    if not lengths:
        return DEFAULT_TOKENS
    return max(1.0, sum(lengths) / len(lengths) / characters_per_token(shape.vocabulary))


def characters_per_token(vocabulary: int) -> float:
    """Larger vocabularies have longer tokens."""
    share = math.log(max(vocabulary, 1) / SMALL_VOCABULARY) / math.log(LARGE_VOCABULARY / SMALL_VOCABULARY)
    return SMALL_CHARACTERS + min(1.0, max(0.0, share)) * (LARGE_CHARACTERS - SMALL_CHARACTERS)


def _rows(version: Version) -> Iterator[dict[str, Any]]:
    file_record = version.files.get("jsonl", {}).get(Split.TRAIN.value)
    if not file_record or not default_storage.exists(file_record["name"]):
        return
    with default_storage.open(file_record["name"], "rb") as file:
        *complete_lines, _ = file.read(SAMPLED_BYTES).split(b"\n")
    for line in complete_lines[:SAMPLED_ROWS]:
        yield json.loads(line)


def _chat_lengths(row: dict[str, Any], *, tools: bool) -> Iterator[int]:
    """Characters of each chat that the model reads for the row."""
    prompt = _messages_length(row.get("prompt")) + (len(json.dumps(row["tools"])) if tools and row.get("tools") else 0)
    answers = [row[name] for name in ("chosen", "rejected", "completion", "messages") if row.get(name)]
    yield from (prompt + _messages_length(answer) for answer in answers)


def _messages_length(messages: Any) -> int:
    return (
        sum(_message_length(message) for message in messages)
        if isinstance(messages, list)
        else len(str(messages or ""))
    )


def _message_length(message: dict[str, Any]) -> int:
    calls = (json.dumps(call.get("function", {})) for call in message.get("tool_calls") or ())
    return sum(len(message.get(name) or "") for name in ("content", "reasoning_content")) + sum(map(len, calls))
