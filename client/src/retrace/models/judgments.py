"""What annotators said of items, and how reviewers decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

from retrace.models.answer import Answer


class Skipped(Answer):
    """An item that is others' now."""

    assignment: str


class Judged(Answer):
    """A judgment that is stored."""

    assignment: str
    feedback: str  # Of onboarding items: what was right and why; else empty.


class Preference(Answer):
    """A judgment of a pair that nobody took back. `strength` is in favor of `a`: 3 much better … 0 tie … -3 `b` much better."""

    id: str
    item: int
    task: str
    a: str
    b: str
    annotator: str
    annotator_kind: str
    annotator_source: str  # The file that it came in with; empty: judged here.
    strength: int  # In favor of trajectory a: +3 much better … 0 tie … −3 b much better.
    both_bad: bool
    aspects: Any  # Key of a question that compares -> its grade in favor of trajectory a.
    answers: Any  # Key of a question -> its answer: a point, an option, options, or words.
    confidence: int | None  # 1 unsure, 2 fairly sure, 3 sure.
    rationale: str
    a_was_left: bool | None  # Null: judged elsewhere, and nothing says it.
    guideline_version: int
    seconds: float  # Time at work: pauses without input do not count.
    created_at: datetime


class StepLabel(Answer):
    """What was said of one step: 1 good, 0 neutral, -1 bad. `is_filled`: it followed from the first error."""

    index: int  # Of the step, from 0.
    value: int  # +1 good, 0 neutral, −1 bad.
    is_filled: bool  # Followed from the first error; the step wasn't labeled by itself.
    critique: str
    spans: Any  # Marked words: part (said, reasoning, call, …), start (character in the part's text), quote, note.


class Correction(Answer):
    """A better action at one step, in place of the policy's own."""

    index: int  # Of the step that it corrects, from 0.
    message: Any  # The assistant message: content, reasoning_content, tool_calls.
    origin: str
    policy: str | None  # Whose action it is, where sampled.


class Inspection(Answer):
    """A trajectory gone through step by step. `first_error`: index of the first wrong step, where one was found."""

    id: str
    item: int
    task: str
    trajectory: str
    annotator: str
    annotator_kind: str
    annotator_source: str  # The file that it came in with; empty: judged here.
    ending: str
    first_error: int | None  # Index of the first step that is wrong.
    labels: list[StepLabel]
    corrections: list[Correction]
    answers: Any  # Key of a question -> its answer: a point, an option, options, or words.
    step_answers: Any  # Index of a step -> key of a question -> its answer there.
    rationale: str
    guideline_version: int
    seconds: float  # Time at work: pauses without input do not count.
    created_at: datetime


class Mark(Answer):
    """Something that happened at one step."""

    index: int  # Of the step, from 0.
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
    annotator_source: str  # The file that it came in with; empty: judged here.
    answers: Any  # Key of a question -> its answer: a point, an option, options, or words.
    step_answers: Any  # Index of a step -> key of a question -> its answer there.
    thumb: int | None  # +1 up, −1 down.
    marks: list[Mark]
    rationale: str
    guideline_version: int
    seconds: float  # Time at work: pauses without input do not count.
    created_at: datetime


class Disputed(Answer):
    """An item about which people contradict each other and nobody decided. `a`: its trajectory, or the first of the pair."""

    id: int
    position: int  # Place in the queue; only its order means something.
    task: str
    a: str
    b: str | None
    judgements: list[str]  # Ids of those that stand, oldest first.


class Adjudication(Answer):
    """A reviewer's decision. Of a pair, a grade in favor of `a`; of a single trajectory, the judgment that stands (`upheld`)."""

    id: str
    item: int
    by: str
    strength: int | None  # In favor of trajectory a, as a preference's.
    both_bad: bool
    upheld: str | None  # The judgment that stands: an inspection or a rating.
    reason: str
    was_blind: bool  # Decided before seeing what others had said.
    created_at: datetime


class Decide(TypedDict, total=False):
    """A decision: of a pair `strength` or `both_bad`, of a single trajectory `upheld`."""

    item: Required[int]  # Of this queue, disputed or not.
    strength: int | None  # 3 a much better … 0 tie … -3 b much better.
    both_bad: bool
    upheld: str | None  # Id of a judgment of this item.
    reason: Required[str]  # The annotator reads it, without your name.


class Judgment(TypedDict, total=False):
    """A judgment of an item. Which fields it takes depends on the kind of its queue."""

    answers: Mapping[str, int | str | Sequence[str]]  # Key of a question in the queue's `asks` -> its answer.
    rationale: str | None
    seconds: float | None  # Time at work.
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
