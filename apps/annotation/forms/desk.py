"""What people send from the desk: judgements of each kind, finished or not, and reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any
from uuid import UUID

from django import forms
from django.core.exceptions import ValidationError

from apps.annotation.asking import Asks, rows_of
from apps.annotation.desk.answers import BetterAction, Label, MarkedStep, Scores, Walk
from apps.annotation.models import Inspection, Mark
from apps.common.storable import UNSTORABLE

ANSWERS = [
    ("3", "Left is much better"),
    ("2", "Left is clearly better"),
    ("1", "Left is slightly better"),
    ("0", "Tie"),
    ("-1", "Right is slightly better"),
    ("-2", "Right is clearly better"),
    ("-3", "Right is much better"),
    ("both_bad", "Both are bad"),
]
CONFIDENCE = [("1", "unsure"), ("2", "fairly sure"), ("3", "sure")]
TEXT = 20_000
SECONDS = 86_400.0
STEPS = 100_000
SPANS = 50

UNREADABLE = ValidationError("The page sent something unreadable. Reload it; what you did is kept.")


class JudgementForm(forms.Form):
    """What every judgement is sent with. `asks`: what else the queue wants answered."""

    rationale = forms.CharField(required=False, max_length=TEXT)
    seconds = forms.FloatField(required=False, min_value=0, max_value=SECONDS)
    guideline_version = forms.IntegerField(required=False, min_value=0, max_value=100_000)

    def __init__(self, data: Mapping[str, Any], *, asks: Asks) -> None:
        super().__init__(data)
        self.asks = asks
        for row in rows_of(asks):
            self.fields[row.field] = forms.TypedChoiceField(
                choices=[(str(value), str(value)) for value in row.values], coerce=int, empty_value=None, required=False
            )

    def answered(self) -> dict[str, int]:
        """Key of an aspect or question -> its answer, for those that have one."""
        given = {row.key: self.cleaned_data.get(row.field) for row in rows_of(self.asks)}
        return {key: value for key, value in given.items() if value is not None}

    def time_and_guidelines(self) -> dict[str, Any]:
        """The keywords that every `record_…` takes."""
        return {
            "seconds": self.cleaned_data["seconds"] or 0.0,
            "guideline_version": self.cleaned_data["guideline_version"] or 0,
        }


class PreferenceForm(JudgementForm):
    """A judgement of a pair as it was made: in favour of a side. `for_assignment` turns it into one in favour of a run."""

    answer = forms.ChoiceField(
        choices=ANSWERS, error_messages={"required": "Choose an answer first: keys 1 to 7, or 0."}
    )

    confidence = forms.TypedChoiceField(choices=CONFIDENCE, coerce=int, empty_value=None, required=False)

    def for_assignment(self, *, a_is_left: bool) -> dict[str, Any]:
        """The keywords of `record_preference`."""
        answer = self.cleaned_data["answer"]
        turn = 1 if a_is_left else -1
        lean = 0 if answer == "both_bad" else int(answer)
        return {
            "strength": turn * lean,
            "both_bad": answer == "both_bad",
            "aspects": {key: turn * grade for key, grade in self.answered().items()},
            "confidence": self.cleaned_data["confidence"],
            "rationale": self.cleaned_data["rationale"],
            **self.time_and_guidelines(),
        }


class PreferenceDraftForm(PreferenceForm):
    """The same, unfinished."""

    answer = forms.ChoiceField(choices=ANSWERS, required=False)


class RowsField(forms.JSONField):
    """A JSON list of objects. `read` gives each as it is kept, and raises LookupError, TypeError, ValueError or OverflowError for one that is none."""

    def __init__(self, read: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
        super().__init__(required=False, empty_value=[])
        self.read = read

    def clean(self, value: Any) -> list[dict[str, Any]]:
        try:
            return [self.read(_storable(row)) for row in super().clean(value)]
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
            raise UNREADABLE from None


class WalkDraftForm(JudgementForm):
    """A run gone through step by step, as far as it is."""

    ending = forms.ChoiceField(choices=Inspection.Ending.choices, required=False)
    first_error = forms.IntegerField(required=False, min_value=0, max_value=STEPS)
    labels = RowsField(lambda row: _label(row))
    corrections = RowsField(lambda row: _correction(row))


class WalkForm(WalkDraftForm):
    """A run gone through step by step."""

    ending = forms.ChoiceField(
        choices=Inspection.Ending.choices,
        error_messages={"required": "Say how it ended first: x found an error, v solved, b bad task, n give up."},
    )

    def clean_labels(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.cleaned_data["labels"]
        if unlabelled := [row["index"] + 1 for row in rows if row["value"] is None]:
            raise ValidationError(f"Step {unlabelled[0]} has a note but no label: press 1, 2 or 3 there.")
        return rows

    def walk(self) -> Walk:
        data = self.cleaned_data
        labels = tuple(Label(**row) for row in _in_order(data["labels"]))
        corrections = tuple(
            BetterAction(row["index"], row["message"], UUID(row["policy"]) if row["policy"] else None)
            for row in _in_order(data["corrections"])
        )
        return Walk(data["ending"], data["first_error"], labels, corrections, data["rationale"])


class RatingDraftForm(JudgementForm):
    """A run rated as a whole, as far as it is."""

    thumb = forms.TypedChoiceField(choices=[("1", "Up"), ("-1", "Down")], coerce=int, empty_value=None, required=False)
    marks = RowsField(lambda row: _mark(row))

    def scores(self) -> Scores:
        data = self.cleaned_data
        marks = tuple(sorted(MarkedStep(**row) for row in data["marks"]))
        return Scores(self.answered(), data["thumb"], marks, data["rationale"])


class ReasonForm(forms.Form):
    reason = forms.CharField(required=False, max_length=300)


def _label(row: Mapping[str, Any]) -> dict[str, Any]:
    if row["value"] not in (-1, 0, 1, None):
        raise ValueError(row["value"])
    return {
        "index": _index(row),
        "value": row["value"],
        "is_filled": bool(row.get("is_filled")),
        "critique": _text(row.get("critique", ""), TEXT),
        "spans": [_span(span) for span in row.get("spans", [])[:SPANS]],
    }


def _span(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "part": _text(given["part"], 50),
        "start": int(given["start"]),
        "quote": _text(given["quote"], TEXT),
        "note": _text(given.get("note", ""), TEXT),
    }


def _correction(row: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(row["message"], dict):
        raise TypeError(row["message"])
    policy = row.get("policy")
    return {"index": _index(row), "message": row["message"], "policy": str(UUID(policy)) if policy else None}


def _mark(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"index": _index(row), "kind": Mark.Kind(row["kind"]).value, "note": _text(row.get("note", ""), 300)}


def _index(row: Mapping[str, Any]) -> int:
    index = row["index"]
    if type(index) is not int or not 0 <= index < STEPS:
        raise ValueError(index)
    return index


def _text(given: Any, most: int) -> str:
    return str(given)[:most]


def _storable(value: Any) -> Any:
    """The same value, without what Postgres keeps in no text. Raises ValueError for numbers that JSON does not have."""
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(value)
    if isinstance(value, str):
        return UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    return [_storable(item) for item in value] if isinstance(value, list) else value


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a step, in the order of the steps; of two for one step the later one."""
    return sorted({row["index"]: row for row in rows}.values(), key=lambda row: int(row["index"]))
