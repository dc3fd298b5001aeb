"""A quality report prepared for display."""

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from apps.annotation.models import Annotator
from apps.annotation.quality.shares import Share, share

Figures = Mapping[str, Any]

FIGURES = (
    ("raw", "Agree", "the chance that two judgments of the same thing agree"),
    ("nominal", "α nominal", "Krippendorff's alpha: values differ or they don't"),
    ("ordinal", "α ordinal", "Krippendorff's alpha: neighboring values nearly agree"),
    ("interval", "α interval", "Krippendorff's alpha: values are numbers"),
    ("fleiss", "κ Fleiss", "Fleiss' kappa, over items with the most frequent number of judgments"),
)
MANY_FAST = 0.2
LITTLE_RIGHT = 0.7
FEW = 10
"""Below this number of judgments no concerns are raised."""


class MeasureRow(NamedTuple):
    """One question, and the agreement on it."""

    name: str
    among_all: bool
    """Whether models and rules are included."""
    figures: list[dict[str, Any]]
    """In the order of FIGURES, each with its title."""
    judgments: int
    units: int
    """Items or steps with two or more judgments."""
    unit: str
    """item or step."""


def measure_rows(figures: Figures) -> list[MeasureRow]:
    rows = []
    for measure in figures.get("measures", []):
        two_values = measure["values"] == 2
        why_not = "with two values it equals α nominal" if two_values else "these values have no order"
        cells = [
            {**measure.get(key, {"value": None, "undefined_because": why_not}), "title": title}
            for key, _, title in FIGURES
        ]
        rows.append(
            MeasureRow(
                measure["name"],
                measure.get("among") == "all",
                cells,
                measure["raw"]["judgments"],
                measure["raw"]["items"],
                "step" if measure.get("of_steps") else "item",
            )
        )
    return rows


class Cell(NamedTuple):
    """The agreement of two people; empty if they share no items."""

    kappa: dict[str, Any] | None
    same: dict[str, Any] | None
    heat: int
    """0 for chance level or worse, 10 for full agreement."""


class MatrixRow(NamedTuple):
    annotator: Annotator
    cells: list[Cell | None]
    """None on the diagonal."""


def matrix(figures: Figures, annotators: Mapping[str, Annotator]) -> list[MatrixRow]:
    """The pairwise matrix, most active annotators first; empty if no two share an item."""
    pairs = figures.get("pairs", {"people": [], "cells": []})
    if not pairs["cells"]:
        return []
    cells = {frozenset((cell["x"], cell["y"])): cell for cell in pairs["cells"]}
    people = [annotator_id for annotator_id in pairs["people"] if annotator_id in annotators]
    return [
        MatrixRow(
            annotators[x],
            [None if x == y else _cell(cells.get(frozenset((x, y)))) for y in people],
        )
        for x in people
    ]


def _cell(cell: dict[str, Any] | None) -> Cell:
    if cell is None:
        return Cell(None, None, 0)
    value = cell["kappa"]["value"]
    return Cell(cell["kappa"], cell["same"], round(10 * max(value or 0.0, 0.0)))


class PersonRow(NamedTuple):
    """One annotator's figures and concerns."""

    annotator: Annotator
    figures: dict[str, Any]
    gold: Share
    """Accuracy on gold items."""
    concerns: list[str]


def people_rows(figures: Figures, annotators: Mapping[str, Annotator], golds: Mapping[UUID, Share]) -> list[PersonRow]:
    """Most active first."""
    rows = [
        person_row(figures, annotators[annotator_id], golds)
        for annotator_id in figures.get("annotators", {})
        if annotator_id in annotators
    ]
    return sorted((row for row in rows if row), key=lambda row: (-row.figures["judged"], row.annotator.name))


def person_row(figures: Figures, annotator: Annotator, golds: Mapping[UUID, Share]) -> PersonRow | None:
    """An annotator's figures and concerns; None if they haven't judged anything yet."""
    person = figures.get("annotators", {}).get(str(annotator.pk))
    gold = golds.get(annotator.pk, share(0, 0))
    return PersonRow(annotator, person, gold, concerns(person, gold)) if person else None


def own_figures(figures: Figures, annotator: Annotator) -> PersonRow | None:
    """The figures that somebody sees about themselves; None if they haven't judged anything yet. Without concerns."""
    person = figures.get("own", {}).get(str(annotator.pk))
    return PersonRow(annotator, person, Share(**person["gold"]), []) if person else None


def concerns(person: Mapping[str, Any], gold: Share | None = None) -> list[str]:
    """Anomalies for a researcher to look at, each statistically significant."""
    notes: list[str] = []
    if person["judged"] < FEW:
        return notes
    left_share, fast, consensus = person["left"], person["fast"], person["consensus"]
    if left_share["p"] is not None and left_share["p"] < 0.01:
        notes.append("favors the left side" if left_share["value"] > 0.5 else "favors the right side")
    if fast["low"] is not None and fast["low"] > MANY_FAST:
        notes.append("very fast")
    if consensus["high"] is not None and consensus["high"] < LITTLE_RIGHT:
        notes.append("differs from the others")
    if gold and gold.high is not None and gold.high < LITTLE_RIGHT:
        notes.append("often wrong on gold")
    return notes
