"""Redaction rules of a workspace."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Required, TypedDict

from retrace.models.answer import Answer


class RedactionRule(Answer):
    """A rule: matches are replaced by `[redacted: name]` before anything is stored."""

    id: str
    name: str
    detector: str
    pattern: str
    created_at: datetime


class Tried(Answer):
    """The result of redacting a sample."""

    text: str
    found: dict[str, int]  # Number of replaced spans by rule name.


class NewRedactionRule(TypedDict, total=False):
    """A built-in detector, or a named pattern."""

    detector: Literal["email", "card", "phone", "ipv4", "ipv6", "iban", "key", "jwt"]
    name: str
    pattern: str  # A regular expression in RE2 syntax.


class RedactionSample(TypedDict, total=False):
    """A text, and a pattern to try instead of the rules."""

    sample: Required[str]
    pattern: str
