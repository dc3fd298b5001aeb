"""What the desk shows, reads and records, by the kind of its queue. Everything else about the desk is the same for all kinds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from apps.annotation import blinding, walking
from apps.annotation.asking import RatingAsks, StepsAsks
from apps.annotation.desk_forms import (
    JudgementForm,
    PreferenceDraftForm,
    PreferenceForm,
    RatingDraftForm,
    WalkDraftForm,
    WalkForm,
)
from apps.annotation.inspecting import record_inspection
from apps.annotation.labelling import record_preference
from apps.annotation.models import Assignment, Inspection, Mark, Queue
from apps.annotation.rating import record_rating
from apps.trajectories.models import Trajectory


class DeskKind(NamedTuple):
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


def run_at(assignment: Assignment, side: str) -> Trajectory | None:
    """The run that an address names by its side."""
    if assignment.item.b is None:
        return assignment.item.a if side == walking.SIDE else None
    return dict(zip(("left", "right"), blinding.sides_of(assignment), strict=True)).get(side)


def _part_url(assignment: Assignment, side: str, index: int) -> str:
    return reverse("annotation:part", args=[assignment.pk, side, index])


# Pairs ----------------------------------------------------------------------------------------------------------------


def _show_pair(assignment: Assignment) -> dict[str, Any]:
    return {"pair": blinding.pair_of(assignment, lambda side, index: _part_url(assignment, side, index))}


def _pair_rows(request: HttpRequest, assignment: Assignment, start: int) -> HttpResponse:
    found = blinding.rows_of(assignment, lambda side, index: _part_url(assignment, side, index), start)
    return render(request, "annotation/_rows.html", {"rows": found})


def _record_preference(assignment: Assignment, form: PreferenceForm) -> None:
    record_preference(assignment=assignment, **form.for_assignment(a_is_left=assignment.a_is_left))


# Single runs ----------------------------------------------------------------------------------------------------------


def _show_run(assignment: Assignment) -> dict[str, Any]:
    return {"run": walking.run_of(assignment, lambda index: _part_url(assignment, walking.SIDE, index))}


def _run_rows(request: HttpRequest, assignment: Assignment, start: int) -> HttpResponse:
    found = walking.rows_of(assignment, lambda index: _part_url(assignment, walking.SIDE, index), start)
    return render(request, "annotation/_walk_rows.html", {"rows": found, "kind": assignment.queue.kind})


def _show_walk(assignment: Assignment) -> dict[str, Any]:
    draft = assignment.draft
    return {
        **_show_run(assignment),
        "asks": StepsAsks.from_json(assignment.queue.asks),
        "endings": Inspection.Ending.choices,
        "kept": {name: json.dumps(draft.get(name) or []) for name in ("labels", "corrections")},
    }


def _record_walk(assignment: Assignment, form: WalkForm) -> None:
    record_inspection(assignment=assignment, walk=form.walk(), **form.time_and_guidelines())


def _show_rating(assignment: Assignment) -> dict[str, Any]:
    draft = assignment.draft
    return {
        **_show_run(assignment),
        "asks": RatingAsks.from_json(assignment.queue.asks),
        "mark_kinds": Mark.Kind.choices,
        "kept": {"marks": json.dumps(draft.get("marks") or []), "answers": json.dumps(draft.get("answers") or {})},
    }


def _record_rating(assignment: Assignment, form: RatingDraftForm) -> None:
    record_rating(assignment=assignment, scores=form.scores(), **form.time_and_guidelines())


KINDS = {
    Queue.Kind.PAIRWISE: DeskKind(
        "annotation/_pair.html", _show_pair, _pair_rows, PreferenceForm, PreferenceDraftForm, _record_preference
    ),
    Queue.Kind.STEPS: DeskKind("annotation/_walk.html", _show_walk, _run_rows, WalkForm, WalkDraftForm, _record_walk),
    Queue.Kind.RATING: DeskKind(
        "annotation/_rating.html", _show_rating, _run_rows, RatingDraftForm, RatingDraftForm, _record_rating
    ),
}
