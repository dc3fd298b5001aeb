"""Datasets, their frozen versions, and freezing recipes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

from retrace.core.request import Progress, address
from retrace.models.answer import Answer, Waitable


class Dataset(Answer):
    """A named series of versions."""

    id: str
    name: str
    description: str
    license: str  # License of the rows.
    created_at: datetime
    version_count: int
    latest: int | None  # Number of the newest frozen version.


class File(Answer):
    """One file of a version."""

    rows: int
    bytes: int
    sha256: str


class Version(Waitable):
    """A version: judgments frozen into rows."""

    id: str
    dataset: str
    number: int
    state: str
    row_type: str
    row_counts: dict[str, int]
    rows_done: int
    rows_expected: int
    content_hash: str  # SHA-256 of the output of `sha256sum train.jsonl validation.jsonl test.jsonl`.
    files: dict[str, dict[str, File]]  # By format, then by split.
    recipe: Any  # Queues, rules for ties and disagreements, split shares, seed.
    error: str
    created_at: datetime
    frozen_at: datetime | None
    url: str  # Address of its page.

    @property
    def path(self) -> str:
        return address("/datasets/{}/versions/{}", self.dataset, self.number)

    @property
    def is_over(self) -> bool:
        return self.state != "freezing"

    @property
    def problem(self) -> str:
        return (self.error or "Freezing failed.") if self.state == "failed" else ""

    @property
    def progress(self) -> Progress:
        return Progress(self.rows_done, self.rows_expected, "rows")


class NewDataset(TypedDict, total=False):
    """A dataset to create."""

    name: Required[str]
    description: str
    license: str


class Recipe(TypedDict, total=False):
    """The rules of a version. The same rules applied to the same judgments give the same bytes."""

    queues: Required[Sequence[str]]  # Queues whose judgments are included.
    row_type: Literal["preference", "step_preferences", "steps", "demonstrations", "unpaired"]
    judgments: Literal["majority", "each"]  # One row per pair, or one per judgment.
    minimum_margin: int  # With majority: the winner's minimum lead in votes.
    aggregation: Literal["votes", "dawid_skene", "glad"]  # Source of the soft label.
    adjudicated: Literal["win", "ignore"]  # A reviewer's decision is the pair's only row, or ignored.
    minimum_confidence: int  # With majority, in percent: the minimum soft label.
    minimum_strength: int  # 1 slightly, 2 clearly, 3 much better.
    ties: Literal["count", "drop"]  # Ties make no row: count them in the card, or drop them.
    both_bad: Literal["count", "drop"]  # The same for “both bad”.
    failed_pairs: Literal["keep", "leave_out"]  # Pairs of two trajectories that failed.
    annotator_kinds: Sequence[Literal["person", "model", "rule", "user"]]  # Whose judgments are included.
    without_annotators: Sequence[str]  # Annotators whose judgments are excluded.
    flagged: Literal["keep", "leave_out"]  # Items that an annotator flagged: kept, or left out as of now.
    without_items: Sequence[int] | None  # Ids of items to leave out, instead of the currently flagged ones.
    train: int
    validation: int
    test: int
    seed: int
    surrogates: Literal["replace", "keep"]  # Lone surrogates: replaced by U+FFFD, or kept as JSON escapes.
    until: datetime | str | None  # Only judgments up to this time; default: now.
