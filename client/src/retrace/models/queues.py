"""Queues and the items that annotators are given."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

from retrace.core.request import Progress, address
from retrace.models.answer import Answer, Waitable


class Queue(Waitable):
    """A queue of pairs or trajectories to judge. `asks`: what a judgment answers beside the main thing."""

    id: str
    name: str
    kind: str
    state: str
    order: str
    overlap: int
    lease_seconds: int
    skipped_come_back: bool  # Whether a skipped item may return to its skipper.
    item_count: int  # Items to be judged, those with a known answer left out. Grows while the queue is filled.
    items_expected: int  # Counted before filling, for its progress.
    asks: Any  # What a judgment here answers, as this kind reads it.
    created_at: datetime

    @property
    def path(self) -> str:
        return address("/queues/{}", self.id)

    @property
    def is_over(self) -> bool:
        return self.state != "filling"

    @property
    def problem(self) -> str:
        return "No items could be made." if self.state == "failed" else ""

    @property
    def progress(self) -> Progress:
        return Progress(self.item_count, self.items_expected, "items")


class QueueSettings(Answer):
    """What may change while people work."""

    id: str
    name: str
    overlap: int
    labellers: list[str] | None  # E-mail addresses; None: everybody.
    gold_percent: int  # Of the items given to a person, so many are gold.
    gold_count: int
    training_count: int
    ends_at: datetime | None
    ends_after: int | None  # Judgments.
    lease_minutes: int
    skipped_come_back: bool
    shows_machines: bool  # Whether people see what models said before they answer.
    blind_review: bool  # Reviewers decide before they see what others said.
    layout: Any  # How the desk is arranged for who didn't choose otherwise.
    questions: list[dict[str, Any]]


class Guideline(Answer):
    """One version of a queue's guidelines."""

    version: int
    text: str  # Markdown.
    created_at: datetime


class Item(Answer):
    """An item of a queue. `a`: its trajectory, or the first of the pair."""

    id: int
    position: int
    task: str
    a: str
    b: str | None
    purpose: str  # work, gold, training.
    overlap: int
    taken: int  # Places that are being worked on, or judged.
    judged: int
    disputed: bool | None  # None of what you have yet to judge yourself.
    assignees: list[str]  # None: it's for everybody.


class BlindStep(Answer):
    """What the agent was told, and what it did then."""

    context: list[dict[str, Any]]
    message: dict[str, Any]


class BlindRun(Answer):
    """A trajectory without what tells who made it or how it ended."""

    side: str  # `left` or `right` of a pair; `run` where there is one.
    steps: list[BlindStep]
    closing: list[dict[str, Any]]  # Messages after the last step.


class Held(Answer):
    """An item on one's own desk."""

    id: str  # Of the assignment, which is what is judged.
    queue: str
    kind: str
    leased_until: datetime  # Others get the item then, unless it's asked for again before.
    instruction: str
    guidelines: str
    guideline_version: int
    runs: list[BlindRun]


class Condition(TypedDict):
    """When a question is asked: if an earlier one was answered by any of these."""

    question: str  # Its key: a scale, a choice, or choices.
    any_of: Sequence[int | str]  # Points of that scale, or some of its options.


class Question(TypedDict, total=False):
    """One question of a queue."""

    name: Required[str]  # What is asked.
    key: str  # Names its answers, and never changes. Left out, it's made from the text.
    type: Literal["comparison", "scale", "choice", "choices", "text"]
    points: int  # Of a scale 2 to 10, from 1 up; of a comparison 3, 5, or 7, with a tie in the middle.
    low: str  # What 1 on a scale means.
    high: str  # What the highest point means.
    options: Sequence[str]  # Of a choice or choices: 2 to 10.
    required: bool  # Whether it must be answered where it is asked.
    per: Literal["item", "step"]  # Asked once, or of every step.
    when: Condition | None  # Left out, it's always asked.


class NewQueue(TypedDict, total=False):
    """A queue to create, with the fields of every kind."""

    trajectories: Sequence[str]  # These and no others.
    filter: str  # Where no ids are given: the query string of a list of trajectories, such as `batch=<id>`; empty: all.
    questions: Sequence[Question] | None  # What is asked beside the main thing. Left out: the usual questions.
    thumb: bool  # Ask for a thumb up or down
    marks: bool  # Steps can be marked: sub-goal reached, safety violated
    every_step: bool  # Each step needs a label, up to the first error
    corrections: bool  # Corrections may be written
    alternatives: str | None  # A policy that corrections are sampled from.
    alternatives_count: int | None  # How many
    alternatives_temperature: float | None
    aspects: str | None  # Older notation: a comparison a line, “Safety: 3”. Use `questions`.
    confidence: bool  # Ask for confidence
    name: Required[str]  # Annotators see it, so don't name policies in it.
    kind: Literal["pairwise", "steps", "rating"] | None  # What is done
    pairs: Literal["all", "some", "one"]  # Of each task
    per_task: int | None  # How many a task
    different_outcomes: bool  # Only trajectories that ended differently.
    different_policies: bool  # Only trajectories of different policies
    overlap: int  # How many different people judge each item. Two or more show how much they agree.
    order: Literal["fifo", "random"]  # Shuffling keeps people from judging the same task many times in a row.
    seed: int  # The same seed draws and shuffles the same way.
    lease_minutes: int  # Time to judge one; after a longer absence the item goes to somebody else.
    skipped_come_back: bool  # Skipped items come back to the same person, at the end
    guidelines: str | None  # Markdown.


class ChangeQueue(TypedDict, total=False):
    """What to change of a queue; what is left out stays."""

    name: str
    overlap: int  # It can only grow.
    labellers: Sequence[str] | None  # E-mail addresses of the members who may label; None: everybody.
    gold_percent: int
    ends_at: datetime | str | None
    ends_after: int | None
    lease_minutes: int
    skipped_come_back: bool
    shows_machines: bool
    blind_review: bool
    questions: Sequence[Question]  # All of them. One that has answers keeps its text, type, points and options.
    layout: dict[str, str]


class Revise(TypedDict):
    """The next version of the guidelines."""

    text: str  # Markdown.


class MakeKnown(TypedDict, total=False):
    """What an item is for and, unless that's ordinary work, its answer."""

    purpose: Required[Literal["gold", "training", "work"]]
    answer: str
    because: str  # Shown to newcomers.


class DrawGold(TypedDict, total=False):
    """How many items become gold."""

    count: int


class Skip(TypedDict, total=False):
    """Why, for the researcher."""

    reason: str


class BulkAct(Answer):
    """One act on many items: `words` say what was done, `undone_at` whether it was taken back."""

    id: str
    kind: Literal["label", "assign"]
    queue: str
    by: str
    words: str
    count: int
    created_at: datetime
    undone_at: datetime | None


class LabelAll(TypedDict, total=False):
    """One label for many trajectories: those in `trajectories` or, without any, all that `filter` finds."""

    trajectories: Sequence[str]
    filter: str  # The query string of the list of trajectories.
    thumb: Required[Literal[1, -1]]  # 1: good, -1: bad.
    reason: str
    count: Required[int]  # How many you expect.


class Assign(TypedDict):
    """Items of a queue, and whom they are for."""

    items: Sequence[int]
    people: Sequence[str]  # E-mail addresses of members. None: everybody again.
