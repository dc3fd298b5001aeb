"""What the desk shows, reads and records, by the kind of its queue. Everything else about the desk is the same for all kinds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from apps.annotation.asking import (
    Asks,
    Aspect,
    PairwiseAsks,
    Question,
    RatingAsks,
    StepsAsks,
    aspect_field,
    question_field,
)
from apps.annotation.desk import blinding, walking
from apps.annotation.desk.inspecting import record_inspection
from apps.annotation.desk.labelling import record_preference
from apps.annotation.desk.rating import record_rating
from apps.annotation.forms.desk import (
    CONFIDENCE,
    JudgementForm,
    PreferenceDraftForm,
    PreferenceForm,
    RatingDraftForm,
    WalkDraftForm,
    WalkForm,
)
from apps.annotation.judges.machines import said_by_machines
from apps.annotation.models import Assignment, Inspection, Queue
from apps.common.environments import ENVIRONMENTS
from apps.trajectories.models import Trajectory


class DeskKind(NamedTuple):
    asks: type[PairwiseAsks] | type[StepsAsks] | type[RatingAsks]
    template: str
    """The item with its answer bar."""
    show: Callable[[Assignment], dict[str, Any]]
    """What the template needs beside the assignment and its draft."""
    rows: Callable[[HttpRequest, Assignment, int], HttpResponse]
    """A few rows of the item, opened."""
    form: type[JudgementForm]
    draft: type[JudgementForm]
    record: Callable[[Assignment, Any], None]
    """Stores what a valid form says. Raises Refusal."""


def kind_of(queue: Queue) -> DeskKind:
    return KINDS[Queue.Kind(queue.kind)]


def asks_of(queue: Queue) -> Asks:
    return kind_of(queue).asks.from_json(queue.asks)


def run_at(assignment: Assignment, side: str) -> Trajectory | None:
    """The run that an address names by its side."""
    if assignment.item.b is None:
        return assignment.item.a if side == walking.SIDE else None
    return dict(zip(("left", "right"), blinding.sides_of(assignment), strict=True)).get(side)


def _part_url(assignment: Assignment, side: str, index: int) -> str:
    return reverse("annotation:part", args=[assignment.pk, side, index])


# Pairs ----------------------------------------------------------------------------------------------------------------


def _show_pair(assignment: Assignment) -> dict[str, Any]:
    asks, draft = PairwiseAsks.from_json(assignment.queue.asks), assignment.draft
    shows = assignment.queue.shows_machines
    return {
        "machines": said_by_machines(assignment.item_id, a_is_left=assignment.a_is_left) if shows else [],
        "pair": blinding.pair_of(assignment, lambda side, index: _part_url(assignment, side, index)),
        "asks": asks,
        "aspects": [_aspect(aspect, draft) for aspect in asks.aspects],
        "confidences": [Option(value, words, str(draft.get("confidence")) == value) for value, words in CONFIDENCE],
    }


def _pair_rows(request: HttpRequest, assignment: Assignment, start: int) -> HttpResponse:
    found = blinding.rows_of(assignment, lambda side, index: _part_url(assignment, side, index), start)
    return render(request, "annotation/_rows.html", {"rows": found})


def _record_preference(assignment: Assignment, form: PreferenceForm) -> None:
    record_preference(assignment=assignment, **form.for_assignment(a_is_left=assignment.a_is_left))


# Aspects and questions --------------------------------------------------------------------------------------------------


class Option(NamedTuple):
    value: str
    words: str
    checked: bool
    hint: str = ""


class Asked(NamedTuple):
    """An aspect or question with its possible answers."""

    name: str
    field: str
    options: list[Option]
    low: str = ""
    high: str = ""
    required: bool = False


SIGNS = {3: "⋘", 2: "≪", 1: "<", 0: "=", -1: ">", -2: "≫", -3: "⋙"}
DEGREES = {1: ["better"], 2: ["better", "much better"], 3: ["slightly better", "better", "much better"]}


def _aspect(aspect: Aspect, draft: dict[str, Any]) -> Asked:
    field = aspect_field(aspect.key)
    values = range(aspect.most, -aspect.most - 1, -1)
    options = [
        Option(str(value), SIGNS[value], draft.get(field) == value, _favour(value, aspect.most)) for value in values
    ]
    return Asked(aspect.name, field, options)


def _favour(value: int, most: int) -> str:
    if value == 0:
        return "the same"
    return f"{'left' if value > 0 else 'right'} {DEGREES[most][abs(value) - 1]}"


def _question(question: Question, draft: dict[str, Any]) -> Asked:
    field = question_field(question.key)
    ends = {1: question.low, question.points: question.high}
    options = [Option(str(n), str(n), draft.get(field) == n, ends.get(n, "")) for n in question.scale]
    return Asked(question.name, field, options, question.low, question.high, question.required)


# Single runs ----------------------------------------------------------------------------------------------------------


def _show_run(assignment: Assignment) -> dict[str, Any]:
    return {"run": walking.run_of(assignment, lambda index: _part_url(assignment, walking.SIDE, index))}


def _run_rows(request: HttpRequest, assignment: Assignment, start: int) -> HttpResponse:
    found = walking.rows_of(assignment, lambda index: _part_url(assignment, walking.SIDE, index), start)
    return render(request, "annotation/_walk_rows.html", {"rows": found, "kind": assignment.queue.kind})


def _show_walk(assignment: Assignment) -> dict[str, Any]:
    asks, draft = StepsAsks.from_json(assignment.queue.asks), assignment.draft
    return {
        **_show_run(assignment),
        "asks": asks,
        "runs_on": asks.alternatives is not None and assignment.item.task.environment in ENVIRONMENTS,
        "endings": Inspection.Ending.choices,
        "kept": {name: json.dumps(draft.get(name) or []) for name in ("labels", "corrections")},
    }


def _record_walk(assignment: Assignment, form: WalkForm) -> None:
    record_inspection(assignment=assignment, walk=form.walk(), **form.time_and_guidelines())


def _show_rating(assignment: Assignment) -> dict[str, Any]:
    asks, draft = RatingAsks.from_json(assignment.queue.asks), assignment.draft
    return {
        **_show_run(assignment),
        "asks": asks,
        "questions": [_question(question, draft) for question in asks.questions],
        "thumb": str(draft.get("thumb") or ""),
        "kept": {"marks": json.dumps(draft.get("marks") or [])},
    }


def _record_rating(assignment: Assignment, form: RatingDraftForm) -> None:
    record_rating(assignment=assignment, scores=form.scores(), **form.time_and_guidelines())


KINDS = {
    Queue.Kind.PAIRWISE: DeskKind(
        PairwiseAsks,
        "annotation/_pair.html",
        _show_pair,
        _pair_rows,
        PreferenceForm,
        PreferenceDraftForm,
        _record_preference,
    ),
    Queue.Kind.STEPS: DeskKind(
        StepsAsks, "annotation/_walk.html", _show_walk, _run_rows, WalkForm, WalkDraftForm, _record_walk
    ),
    Queue.Kind.RATING: DeskKind(
        RatingAsks, "annotation/_rating.html", _show_rating, _run_rows, RatingDraftForm, RatingDraftForm, _record_rating
    ),
}
