"""Annotators' judgments of items, and reviewers' decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

from retrace.models.answer import Answer


class Skipped(Answer):
    """A skipped item, now available to others."""

    assignment: str


class Judged(Answer):
    """A stored judgment."""

    assignment: str
    feedback: str  # For onboarding items: the right answer and why; otherwise empty.


class Preference(Answer):
    """A valid judgment of a pair. `strength` is in favor of `a`: 3 much better … 0 tie … -3 `b` much better."""

    id: str
    item: int
    task: str
    a: str
    b: str
    annotator: str
    annotator_kind: str
    annotator_source: str  # The file that it was imported from; empty: judged here.
    strength: int  # In favor of trajectory a: +3 much better … 0 tie … −3 b much better.
    both_bad: bool
    aspects: Any  # Key of a comparison question -> its grade in favor of trajectory a.
    answers: Any  # Key of a question -> its answer: a point, an option, options, or text.
    confidence: int | None  # 1 unsure, 2 fairly sure, 3 sure.
    rationale: str
    a_was_left: bool | None  # Null for judgments of models, and if unknown, for those made elsewhere.
    guideline_version: int
    seconds: float  # Active time: pauses without input don't count.
    created_at: datetime


class StepLabel(Answer):
    """The label of one step: 1 good, 0 neutral, -1 bad. `is_filled`: it was derived from the first error."""

    index: int  # Index of the step, from 0.
    value: int  # +1 good, 0 neutral, −1 bad.
    is_filled: bool  # Derived from the first error; the step wasn't labeled individually.
    critique: str
    spans: Any  # Marked passages: part (said, reasoning, call, …), start (character offset in the part's text), quote, note.


class Correction(Answer):
    """A better action at one step, in place of the policy's own."""

    index: int  # Index of the corrected step, from 0.
    message: Any  # The assistant message: content, reasoning_content, tool_calls.
    origin: str
    policy: str | None  # For sampled actions, the policy.


class Inspection(Answer):
    """A trajectory judged step by step. `first_error`: index of the first wrong step, if one was found."""

    id: str
    item: int
    task: str
    trajectory: str
    annotator: str
    annotator_kind: str
    annotator_source: str  # The file that it was imported from; empty: judged here.
    ending: str
    first_error: int | None  # Index of the first wrong step.
    labels: list[StepLabel]
    corrections: list[Correction]
    answers: Any  # Key of a question -> its answer: a point, an option, options, or text.
    step_answers: Any  # Step index -> question key -> answer for that step.
    rationale: str
    guideline_version: int
    seconds: float  # Active time: pauses without input don't count.
    created_at: datetime


class Mark(Answer):
    """An event marked at a step."""

    index: int  # Index of the step, from 0.
    kind: str
    note: str


class Rating(Answer):
    """A trajectory rated as a whole. `answers`: key of a question -> its answer, from 1 up. `thumb`: 1 up, -1 down."""

    id: str
    item: int
    task: str
    trajectory: str
    annotator: str
    annotator_kind: str
    annotator_source: str  # The file that it was imported from; empty: judged here.
    answers: Any  # Key of a question -> its answer: a point, an option, options, or text.
    step_answers: Any  # Step index -> question key -> answer for that step.
    thumb: int | None  # +1 up, −1 down.
    marks: list[Mark]
    rationale: str
    guideline_version: int
    seconds: float  # Active time: pauses without input don't count.
    created_at: datetime


class Disputed(Answer):
    """An item with conflicting judgments and no decision. `a`: its trajectory, or the first of the pair."""

    id: int
    position: int  # Position in the queue; only the order is meaningful.
    task: str
    a: str
    b: str | None
    judgments: list[str]  # Ids of the valid judgments, oldest first.


class Adjudication(Answer):
    """A reviewer's decision: for a pair, a grade in favor of `a`; for a single trajectory, the judgment that is `upheld`."""

    id: str
    item: int
    by: str
    strength: int | None  # In favor of trajectory a, as in a preference.
    both_bad: bool
    upheld: str | None  # The judgment that is upheld: an inspection or a rating.
    reason: str
    was_blind: bool  # Decided before seeing others' judgments.
    created_at: datetime


class Decide(TypedDict, total=False):
    """A decision: for a pair `strength` or `both_bad`, for a single trajectory `upheld`."""

    item: Required[int]  # An item of this queue, disputed or not.
    strength: int | None  # 3 a much better … 0 tie … -3 b much better.
    both_bad: bool
    upheld: str | None  # Id of a judgment of this item.
    reason: Required[str]  # Shown to the annotator, without your name.


class Judgment(TypedDict, total=False):
    """A judgment of an item. Its fields depend on the kind of queue."""

    answers: Mapping[str, int | str | Sequence[str]]  # Key of a question in the queue's `asks` -> its answer.
    rationale: str | None
    seconds: float | None  # Active time.
    guideline_version: int | None
    # pairs
    answer: Literal["3", "2", "1", "0", "-1", "-2", "-3", "both_bad"]  # 3: left is much better … -3: right is.
    confidence: Literal["1", "2", "3"] | None
    # steps and ratings
    step_answers: Sequence[Mapping[str, Any]]
    # steps
    ending: Literal["found_error", "solved", "bad_problem", "give_up"]
    first_error: int | None
    labels: Sequence[Mapping[str, Any]]
    corrections: Sequence[Mapping[str, Any]]
    # ratings
    thumb: Literal["1", "-1"] | None
    marks: Sequence[Mapping[str, Any]]
