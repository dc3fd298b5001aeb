"""Model annotators of a queue."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Required, TypedDict

from retrace.models.answer import Answer


class Prompt(Answer):
    """The instructions of a judge."""

    version: int
    text: str


class Share(Answer):
    """`count` of `of`, with its 95 % interval; null if `of` is 0."""

    count: int
    of: int
    value: float | None
    low: float | None
    high: float | None


class Judge(Answer):
    """A model that annotates a queue: its progress, its cost, its agreement with people and with itself."""

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
    cost: float  # So far, at the given prices.
    most_cost: float | None  # It pauses at this cost.
    prompt: Prompt | None
    with_people: Share  # Agreement with the majority, on pairs where most people prefer one side.
    right_on_gold: Share
    steady: Share  # Consistency on pairs asked in both orders. Chance is 0.5.
    left: Share  # Share of its choices that were the left side.
    created_at: datetime


class Send(TypedDict, total=False):
    """A model to enroll. A reward model needs no prompt and no prices."""

    policy: Required[str]  # A served model or a reward model.
    mode: Literal["join", "prelabel"]
    prompt: str  # What to look for.
    requests_a_minute: int  # Two per pair, since both orders are asked.
    prompt_price: float  # Per million prompt tokens.
    completion_price: float  # Per million completion tokens.
    most_cost: float | None  # It pauses when it has cost this much.


class Resume(TypedDict, total=False):
    """How to go on. What is left out stays as it is."""

    most_cost: float | None  # A new budget; None for no limit.
