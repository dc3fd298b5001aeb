"""Estimates the chat lengths of a version from the text of its first rows. Row sizes in bytes aren't usable: tools make up most of many rows, and small
models' templates omit them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

from django.core.files.storage import default_storage

from apps.datasets.models import Split, Version
from workers.bridge.estimates import ModelFacts

SAMPLE = 100
"""Number of rows sampled."""
USUAL_TOKENS = 512
"""Default without rows."""
SMALL_VOCABULARY, SMALL_CHARACTERS = 1_000, 2.4
"""Characters per token, including special tokens, measured on office chats with a scratch model's tokenizer."""
LARGE_VOCABULARY, LARGE_CHARACTERS = 150_000, 4.0
"""Characters per token of common tokenizers, in English and code."""
LARGE_TEMPLATE = 20_000
"""Models with larger vocabularies have a chat template that includes the tools."""


def chat_tokens(version: Version, facts: ModelFacts) -> float:
    """Tokens of a typical chat: the prompt and one completion."""
    lengths = [length for row in _rows(version) for length in _characters(row, tools=facts.vocabulary > LARGE_TEMPLATE)]
    if not lengths:
        return USUAL_TOKENS
    return max(1.0, sum(lengths) / len(lengths) / characters_a_token(facts.vocabulary))


def characters_a_token(vocabulary: int) -> float:
    """Larger vocabularies have longer tokens."""
    share = math.log(max(vocabulary, 1) / SMALL_VOCABULARY) / math.log(LARGE_VOCABULARY / SMALL_VOCABULARY)
    return SMALL_CHARACTERS + min(1.0, max(0.0, share)) * (LARGE_CHARACTERS - SMALL_CHARACTERS)


def _rows(version: Version) -> Iterator[dict[str, Any]]:
    stored = version.files.get("jsonl", {}).get(Split.TRAIN.value)
    if not stored or not default_storage.exists(stored["name"]):
        return
    with default_storage.open(stored["name"], "rb") as file:
        for line in islice(file, SAMPLE):
            yield json.loads(line)


def _characters(row: dict[str, Any], *, tools: bool) -> Iterator[int]:
    """Characters of each chat that the model reads for the row."""
    prompt = _written(row.get("prompt")) + (len(json.dumps(row["tools"])) if tools and row.get("tools") else 0)
    answers = [row[name] for name in ("chosen", "rejected", "completion", "messages") if row.get(name)]
    yield from (prompt + _written(answer) for answer in answers)


def _written(messages: Any) -> int:
    return sum(_message(each) for each in messages) if isinstance(messages, list) else len(str(messages or ""))


def _message(message: dict[str, Any]) -> int:
    calls = (json.dumps(call.get("function", {})) for call in message.get("tool_calls") or ())
    return sum(len(message.get(name) or "") for name in ("content", "reasoning_content")) + sum(map(len, calls))
