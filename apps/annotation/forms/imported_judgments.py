"""The form for the meanings of an imported file's columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django import forms

from apps.annotation.kinds import KINDS
from apps.annotation.kinds.meanings import Column, Columns, Meanings, Survey
from apps.annotation.models import Annotator
from apps.common.names import NameField

NOTHING = ("", "–")
FIRST_STEP = [
    NOTHING,
    ("0", "its first wrong step; the first step is 0"),
    ("1", "its first wrong step; the first step is 1"),
]
OURS = "first_error"
"""The name that our format readers give to the index of the first wrong step, counted from 0."""


@dataclass(frozen=True)
class Value:
    """One value of a column, how often it occurs, and the field that asks for its meaning."""

    text: str
    times: int
    field: forms.BoundField


@dataclass(frozen=True)
class Group:
    """Columns that are interpreted alike."""

    names: tuple[str, ...]
    values: list[Value]

    @property
    def is_suggested(self) -> bool:
        """Whether some value has only one possible meaning."""
        return any(value.field.initial for value in self.values)

    @property
    def sort_key(self) -> tuple[bool, bool, int]:
        """Sort key, likeliest verdicts first: interpretable values, several annotators with the same values, few values."""
        return not self.is_suggested, len(self.names) == 1, len(self.values)


class Part(NamedTuple):
    """The questions for one kind of judgments in a file."""

    kind: str
    groups: list[Group]
    indexes: list[tuple[str, forms.BoundField]]
    """Columns that may hold the first wrong step."""


class AdoptForm(forms.Form):
    """Built from the columns of the file: one field per value."""

    name = NameField(max_length=200, help_text="The name of the queue for these judgments.")
    judged = forms.ChoiceField(label="Kind of judgment", widget=forms.RadioSelect)
    source = forms.CharField(
        label="Source",
        max_length=300,
        help_text="Such as the name of the data set; shown with each of these judgments.",
    )
    judged_by = forms.ChoiceField(
        label="Judged by",
        choices=[(Annotator.Kind.PERSON.value, "People"), (Annotator.Kind.MODEL.value, "A model")],
        initial=Annotator.Kind.PERSON.value,
        widget=forms.RadioSelect,
    )
    who = forms.ChoiceField(label="Annotator column", required=False)

    def __init__(self, *args: Any, survey: Survey, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.survey = survey
        self.kinds = [name for name, kind in KINDS.items() if kind.occurs_in(survey)]
        choice = self.fields["judged"]
        assert isinstance(choice, forms.ChoiceField)
        choice.choices = [(kind, KINDS[kind].imported_as) for kind in self.kinds]
        choice.initial = self.kinds[0] if self.kinds else None
        who = self.fields["who"]
        assert isinstance(who, forms.ChoiceField)
        who.choices = [("", "no column"), *((name, name) for name in survey.names)]
        for kind in self.kinds:
            for index, columns in enumerate(self._columns(kind)):
                for number, (value, _) in enumerate(columns.values):
                    self.fields[_field(kind, index, number)] = forms.ChoiceField(
                        label=f"{columns.names[0]} is {value}",
                        choices=choices_of(kind, survey.sides),
                        initial=KINDS[kind].suggested(json.loads(value), survey.sides),
                        required=False,
                        widget=forms.Select(attrs={"class": "input means"}),
                    )
        for index, name in enumerate(self._indexes):
            self.fields[f"first-{index}"] = forms.ChoiceField(
                label=name, choices=FIRST_STEP, initial="0" if name == OURS else "", required=False
            )

    @property
    def _indexes(self) -> tuple[str, ...]:
        return self.survey.indexes

    def _columns(self, kind: str) -> tuple[Columns, ...]:
        return self.survey.labels if KINDS[kind].labels_steps else self.survey.verdicts

    def parts(self) -> list[Part]:
        """The questions about values, by kind."""
        return [
            Part(
                kind,
                sorted(self._groups(kind), key=lambda group: group.sort_key),
                self.indexes() if KINDS[kind].labels_steps else [],
            )
            for kind in self.kinds
        ]

    def _groups(self, kind: str) -> Iterator[Group]:
        for index, columns in enumerate(self._columns(kind)):
            values = [
                Value(_shown_value(value), times, self[_field(kind, index, number)])
                for number, (value, times) in enumerate(columns.values)
            ]
            yield Group(columns.names, values)

    def indexes(self) -> list[tuple[str, forms.BoundField]]:
        """Columns that may hold the first wrong step."""
        return [(name, self[f"first-{index}"]) for index, name in enumerate(self._indexes)]

    def meanings(self) -> Meanings:
        """The meanings as far as the form is valid; the preview shows them before it's complete."""
        kind = self.read("judged") or self.kinds[0]
        columns = [*self._columns_with_meaning(kind), *(self._first_errors() if KINDS[kind].labels_steps else ())]
        return Meanings(kind=kind, columns=tuple(columns), who=self.read("who"))

    def _columns_with_meaning(self, kind: str) -> Iterator[Column]:
        for index, columns in enumerate(self._columns(kind)):
            meanings = {
                value: self.read(_field(kind, index, number)) for number, (value, _) in enumerate(columns.values)
            }
            means = {value: meaning for value, meaning in meanings.items() if meaning}
            for name in columns.names if means else ():
                yield Column(name, means, is_somebody=len(columns.names) > 1, of_steps=KINDS[kind].labels_steps)

    def _first_errors(self) -> Iterator[Column]:
        for index, name in enumerate(self._indexes):
            if first := self.read(f"first-{index}"):
                yield Column(name, {}, first=int(first))

    def read(self, name: str) -> str:
        """A field's submitted value, or its initial one."""
        cleaned: Mapping[str, Any] = getattr(self, "cleaned_data", {})
        return str(
            cleaned.get(name, "") if self.is_bound else self.get_initial_for_field(self.fields[name], name) or ""
        )


def choices_of(kind: str, sides: tuple[str, str] | None) -> list[tuple[str, str]]:
    """The possible meanings of a value, as text."""
    means = KINDS[kind]
    return [NOTHING, *zip(means.imported_values, means.imported_value_texts(sides), strict=True)]


def _field(kind: str, index: int, number: int) -> str:
    return f"{kind}-{index}-{number}"


def _shown_value(value: str) -> str:
    parsed = json.loads(value)
    return parsed if isinstance(parsed, str) and parsed.strip() else value
