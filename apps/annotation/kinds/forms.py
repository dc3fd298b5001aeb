"""What judgments of every kind are sent with from the desk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, NamedTuple

from django import forms
from django.core.exceptions import ValidationError

from apps.accounts.models import Workspace
from apps.annotation.kinds.questions import Asks, Aspect, Question, UnreadableLine, aspect_field, question_field
from apps.annotation.models import Assignment
from apps.common.text_encoding import UNSTORABLE

TEXT = 20_000
SECONDS = 86_400.0
STEPS = 100_000

UNREADABLE = ValidationError("The page sent something unreadable. Reload it; your work is kept.")


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


DEGREES = {1: ["better"], 2: ["better", "much better"], 3: ["slightly better", "better", "much better"]}


def arrows(grade: int) -> str:
    """A grade as the desk draws it: arrows towards the better side, more of them for a stronger grade."""
    return "←" * grade or "→" * -grade or "="


def asked_aspect(aspect: Aspect, draft: Mapping[str, Any]) -> Asked:
    """With the grade that the draft gives it."""
    field = aspect_field(aspect.key)
    options = [
        Option(str(grade), arrows(grade), draft.get(field) == grade, _favor(grade, aspect.most))
        for grade in aspect.grades
    ]
    return Asked(aspect.name, field, options)


def _favor(grade: int, most: int) -> str:
    if grade == 0:
        return "the same"
    return f"{'left' if grade > 0 else 'right'} {DEGREES[most][abs(grade) - 1]}"


def asked_question(question: Question, draft: Mapping[str, Any]) -> Asked:
    """With the answer that the draft gives it."""
    field = question_field(question.key)
    ends = {1: question.low, question.points: question.high}
    options = [Option(str(n), str(n), draft.get(field) == n, ends.get(n, "")) for n in question.scale]
    return Asked(question.name, field, options, question.low, question.high, question.required)


class JudgementForm(forms.Form):
    """What every judgment is sent with. `asks`: what else the queue wants answered."""

    rationale = forms.CharField(required=False, max_length=TEXT)
    seconds = forms.FloatField(required=False, min_value=0, max_value=SECONDS)
    guideline_version = forms.IntegerField(required=False, min_value=0, max_value=100_000)

    def __init__(self, data: Mapping[str, Any], *, asks: Asks) -> None:
        super().__init__(data)
        self.asks = asks
        for row in asks.rows:
            self.fields[row.field] = forms.TypedChoiceField(
                choices=[(str(value), str(value)) for value in row.values], coerce=int, empty_value=None, required=False
            )

    def answered(self) -> dict[str, int]:
        """Key of an aspect or question -> its answer, for those that have one."""
        given = {row.key: self.cleaned_data.get(row.field) for row in self.asks.rows}
        return {key: value for key, value in given.items() if value is not None}

    def to_answer(self, assignment: Assignment) -> Any:
        """What a valid form says, as `record` takes it."""
        raise NotImplementedError

    def time_and_guidelines(self) -> dict[str, Any]:
        """The other keywords of `record`."""
        return {
            "seconds": self.cleaned_data["seconds"] or 0.0,
            "guideline_version": self.cleaned_data["guideline_version"] or 0,
        }


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


def step_index(row: Mapping[str, Any]) -> int:
    index = row["index"]
    if type(index) is not int or not 0 <= index < STEPS:
        raise ValueError(index)
    return index


def text(given: Any, most: int) -> str:
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


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a step, in the order of the steps; of two for one step the later one."""
    return sorted({row["index"]: row for row in rows}.values(), key=lambda row: int(row["index"]))


class LinesField(forms.CharField):
    """Aspects or questions, one a line, as `read` takes them."""

    def __init__(self, read: Any, **options: Any) -> None:
        super().__init__(required=False, max_length=10_000, widget=forms.Textarea(attrs={"rows": 4}), **options)
        self.read = read

    def clean(self, value: Any) -> Any:
        try:
            return self.read(super().clean(value))
        except UnreadableLine as problem:
            raise forms.ValidationError(str(problem)) from None


class AsksForm(forms.Form):
    """What a queue of one kind asks beside the main thing: a kind's part of the form of a new queue."""

    def __init__(self, *args: Any, workspace: Workspace, **options: Any) -> None:
        super().__init__(*args, **options)
        self.workspace = workspace
