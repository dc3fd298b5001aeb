"""Machine annotators of a queue."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Required, TypedDict

from retrace.models.answer import Answer


class Prompt(Answer):
    """What a judge is told to look for."""

    version: int
    text: str


class Share(Answer):
    """`count` of `of`, with its 95 % interval; null where there were none."""

    count: int
    of: int
    value: float | None
    low: float | None
    high: float | None


class Judge(Answer):
    """A model at work in a queue: how far it is, what it has cost, how far it agrees with people and with itself."""

    id: str
    policy: str | None
    name: str
    mode: str
    state: str
    error: str  # Why it stopped.
    answered: int  # Pairs.
    failed: int  # Pairs without a usable answer.
    prompt_tokens: int
    completion_tokens: int
    cost: float  # So far, at the prices given.
    most_cost: float | None  # It pauses there.
    prompt: Prompt | None
    with_people: Share  # Of pairs on which most people prefer one side: how often it prefers the same.
    right_on_gold: Share
    steady: Share  # Of pairs asked in both orders: how often it prefers the same trajectory. Chance is a half.
    left: Share  # Of sides that it chose: the left one.
    created_at: datetime


class Send(TypedDict, total=False):
    """A model to send. A reward model needs no prompt and no prices."""

    policy: Required[str]  # A served model or a reward model.
    mode: Literal["join", "prelabel"]
    prompt: str  # What to look for.
    requests_a_minute: int  # Two per pair, since both orders are asked.
    prompt_price: float  # Of a million tokens read.
    completion_price: float  # Of a million tokens written.
    most_cost: float | None  # It pauses when it has cost so much.
