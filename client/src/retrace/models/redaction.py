"""What a workspace keeps out of storage."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Required, TypedDict

from retrace.models.answer import Answer


class RedactionRule(Answer):
    """What is replaced by `[redacted: name]` before anything is stored."""

    id: str
    name: str
    detector: str
    pattern: str
    created_at: datetime


class Tried(Answer):
    """What rules make of a sample."""

    text: str
    found: dict[str, int]  # Replaced spans, by the name of the rule.


class NewRedactionRule(TypedDict, total=False):
    """A detector, or a pattern with a name."""

    detector: Literal["email", "card", "phone", "ipv4", "ipv6", "iban", "key", "jwt"]
    name: str
    pattern: str  # A regular expression as RE2 reads it.


class RedactionSample(TypedDict, total=False):
    """A text, and a pattern to try in place of the rules."""

    sample: Required[str]
    pattern: str
