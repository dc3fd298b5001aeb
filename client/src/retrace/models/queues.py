"""Queues and their items."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

from retrace.core.request import Progress, address
from retrace.models.answer import Answer, Waitable


class Queue(Waitable):
    """A queue of pairs or trajectories to judge. `asks`: the questions of a judgment."""

    id: str
    name: str
    kind: str
    state: str
    order: str
    overlap: int
    lease_seconds: int
    skipped_come_back: bool  # Whether a skipped item can return to the person who skipped it.
    item_count: int  # Number of items to judge, without those with a known answer. Grows while the queue is filled.
    items_expected: int  # Computed before filling, for the progress.
    asks: Any  # What a judgment in this queue consists of, depending on its kind.
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
    """Settings that can change while people work."""

    id: str
    name: str
    overlap: int
    labelers: list[str] | None  # E-mail addresses; None: everybody.
    gold_percent: int  # Percentage of gold items among those given to a person.
    gold_count: int
    training_count: int
    ends_at: datetime | None
    ends_after: int | None  # The queue ends after this many judgments.
    lease_minutes: int
    skipped_come_back: bool
    shows_machines: bool  # Whether people see models' judgments before they answer.
    blind_review: bool  # Reviewers decide before they see others' judgments.
    layout: Any  # Default arrangement of the desk.
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
    taken: int  # Slots in progress or judged.
    judged: int
    disputed: bool | None  # Null for items that you have yet to judge yourself.
    assignees: list[str]  # Empty: for everybody.


class BlindStep(Answer):
    """The messages that the agent received, and its action."""

    context: list[dict[str, Any]]
    message: dict[str, Any]


class BlindRun(Answer):
    """A trajectory without anything that reveals who made it or how it ended."""

    side: str  # `left` or `right` for a pair; `run` for a single trajectory.
    steps: list[BlindStep]
    closing: list[dict[str, Any]]  # Messages after the last step.


class Held(Answer):
    """An item leased to you."""

    id: str  # Id of the assignment, which is what you judge.
    queue: str
    kind: str
    leased_until: datetime  # After this time others get the item, unless you request it again before.
    instruction: str
    guidelines: str
    guideline_version: int
    runs: list[BlindRun]


class Condition(TypedDict):
    """When a question is asked: if an earlier one was answered with any of these."""

    question: str  # The earlier question's key: a scale, a choice, or choices.
    any_of: Sequence[int | str]  # Points of the scale, or some of the options.


class Question(TypedDict, total=False):
    """One question of a queue."""

    name: Required[str]  # The question's text.
    key: str  # Identifies its answers and never changes. Default: derived from the text.
    type: Literal["comparison", "scale", "choice", "choices", "text"]
    points: int  # For a scale: 2 to 10, counted from 1; for a comparison: 3, 5, or 7, with a tie in the middle.
    low: str  # Meaning of 1 on a scale.
    high: str  # Meaning of the highest point.
    options: Sequence[str]  # For choice or choices: 2 to 10.
    required: bool  # Whether it must be answered where it's asked.
    per: Literal["item", "step"]  # Asked once, or at every step.
    when: Condition | None  # Default: always asked.


class NewQueue(TypedDict, total=False):
    """A queue to create, with the fields of every kind."""

    trajectories: Sequence[str]  # Exactly these trajectories.
    filter: str  # If no ids are given: the query string of a trajectory list, such as `batch=<id>`; empty: all.
    questions: Sequence[Question] | None  # Questions besides the main one. Default: the usual questions.
    thumb: bool  # Ask for a thumb up or down
    marks: bool  # Steps can be marked: sub-goal reached, safety violated
    every_step: bool  # Each step needs a label, up to the first error
    corrections: bool  # Corrections may be written
    alternatives: str | None  # A policy to sample corrections from.
    alternatives_count: int | None  # How many
    alternatives_temperature: float | None
    aspects: str | None  # Legacy format: one comparison per line, “Safety: 3”. Use `questions`.
    confidence: bool  # Ask for confidence
    name: Required[str]  # Shown to annotators, so don't mention policies.
    kind: Literal["pairwise", "steps", "rating"] | None  # Kind of judgment
    pairs: Literal["all", "some", "one"]  # Pairs per task
    per_task: int | None  # Maximum per task
    different_outcomes: bool  # Only trajectories that ended differently.
    different_policies: bool  # Only trajectories of different policies
    overlap: int  # Number of different people who judge each item. Two or more make agreement measurable.
    order: Literal["fifo", "random"]  # Shuffling keeps people from judging the same task many times in a row.
    seed: int  # The same seed draws and shuffles the same way.
    lease_minutes: int  # Time limit per item; after that, it goes to somebody else.
    skipped_come_back: bool  # Skipped items come back to the same person, at the end
    guidelines: str | None  # Markdown.


class ChangeQueue(TypedDict, total=False):
    """Changes to a queue; fields left out stay as they are."""

    name: str
    overlap: int  # It can only grow.
    labelers: Sequence[str] | None  # E-mail addresses of the members who may label; None: everybody.
    gold_percent: int
    ends_at: datetime | str | None
    ends_after: int | None
    lease_minutes: int
    skipped_come_back: bool
    shows_machines: bool
    blind_review: bool
    questions: Sequence[Question]  # All questions. One with answers keeps its text, type, points, and options.
    layout: dict[str, str]


class Revise(TypedDict):
    """The next version of the guidelines."""

    text: str  # Markdown.


class MakeKnown(TypedDict, total=False):
    """The purpose of an item and, unless that is ordinary work, its answer."""

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
    """One action on many items: `words` describes it, `undone_at` says whether it was undone."""

    id: str
    kind: Literal["label", "assign"]
    queue: str
    by: str
    words: str
    count: int
    created_at: datetime
    undone_at: datetime | None


class LabelAll(TypedDict, total=False):
    """One label for many trajectories: those in `trajectories` or, if it's empty, all that match `filter`."""

    trajectories: Sequence[str]
    filter: str  # The query string of the list of trajectories.
    thumb: Required[Literal[1, -1]]  # 1: good, -1: bad.
    reason: str
    count: Required[int]  # The number you expect to match.


class Assign(TypedDict):
    """Items of a queue, and the people they are assigned to."""

    items: Sequence[int]
    people: Sequence[str]  # E-mail addresses of members. Empty: everybody again.
