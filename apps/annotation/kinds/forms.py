"""The desk's forms, shared by judgments of every kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, ClassVar, NamedTuple

from django import forms
from django.core.exceptions import ValidationError

from apps.accounts.models import Workspace
from apps.annotation.kinds.questions import Asks, field_of
from apps.annotation.models import Assignment
from apps.common.text_encoding import UNSTORABLE
from contract.questions import MAX_ANSWER_LENGTH, Answers, Question

TEXT = 20_000
SECONDS = 86_400.0
STEPS = 100_000

UNREADABLE = ValidationError("The page sent something unreadable. Reload it; your work is kept.")


class Option(NamedTuple):
    value: str
    label: str
    checked: bool
    hint: str = ""


class QuestionField(NamedTuple):
    """A question as shown at the desk."""

    question: Question
    field: str
    options: list[Option]
    text: str = ""
    condition: str = ""
    """Name of the field that the question depends on; if empty, it's always asked."""
    any_of: str = ""
    """The values of that field for which it's asked, as JSON."""
    condition_text: str = ""


DEGREES = {1: ["better"], 2: ["better", "much better"], 3: ["slightly better", "better", "much better"]}


def arrows(grade: int) -> str:
    """A grade as drawn at the desk: arrows towards the better side, more of them for a stronger grade."""
    return "←" * grade or "→" * -grade or "="


def question_fields(asks: Asks, draft: Mapping[str, Any]) -> list[QuestionField]:
    """A queue's questions in order, with the answers of a draft. Questions about steps are filled in by the page, step by step."""
    by_key = {question.key: question for question in asks.questions}
    return [_question_view(question, by_key, draft) for question in asks.questions]


def _question_view(question: Question, by_key: Mapping[str, Question], draft: Mapping[str, Any]) -> QuestionField:
    field = field_of(question)
    answer = draft.get(field) if question.per == "item" else None
    options = [_option(question, value, answer) for value in question.values]
    text = answer if question.type == "text" and isinstance(answer, str) else ""
    if not (when := question.when):
        return QuestionField(question, field, options, text)
    other = by_key[when.question]
    any_of = [str(value) for value in when.any_of]
    condition_text = f"Only if “{other.name}” is {' or '.join(any_of)}."
    return QuestionField(question, field, options, text, field_of(other), json.dumps(any_of), condition_text)


def _option(question: Question, value: int | str, answer: Any) -> Option:
    checked = value in answer if isinstance(answer, list) else answer == value
    if not isinstance(value, int):
        return Option(value, value, checked)
    if question.type == "comparison":
        return Option(str(value), arrows(value), checked, _favor_text(value, question.most))
    ends = {1: question.low, question.points: question.high}
    return Option(str(value), str(value), checked, ends.get(value, ""))


def _favor_text(grade: int, max_grade: int) -> str:
    if grade == 0:
        return "the same"
    return f"{'left' if grade > 0 else 'right'} {DEGREES[max_grade][abs(grade) - 1]}"


def _form_field(question: Question) -> forms.Field:
    choices = [(str(value), str(value)) for value in question.values]
    match question.type:
        case "comparison" | "scale":
            return forms.TypedChoiceField(choices=choices, coerce=int, empty_value=None, required=False)
        case "choice":
            return forms.ChoiceField(choices=choices, required=False)
        case "choices":
            return forms.MultipleChoiceField(choices=choices, required=False)
        case "text":
            return forms.CharField(max_length=MAX_ANSWER_LENGTH, required=False)


_NO_ANSWERS = ("seconds", "guideline_version", "step_answers")


class JudgmentForm(forms.Form):
    """Fields common to all judgments. `asks`: what else the queue asks for."""

    rationale = forms.CharField(required=False, max_length=TEXT)
    seconds = forms.FloatField(required=False, min_value=0, max_value=SECONDS)
    guideline_version = forms.IntegerField(required=False, min_value=0, max_value=100_000)

    settable: ClassVar[tuple[str, ...]] = ()
    """The fields that a queue may not ask for: its `asks` say so under the same names."""

    def __init__(self, data: Mapping[str, Any], *, asks: Asks) -> None:
        super().__init__(data)
        self.asks = asks
        for question in asks.of_items:
            self.fields[field_of(question)] = _form_field(question)

    def clean(self) -> dict[str, Any]:
        for name in self.settable:
            if self.cleaned_data.get(name) not in self.fields[name].empty_values and not getattr(self.asks, name):
                self.add_error(name, f"This queue doesn't ask for {name}; it asks for {', '.join(self._asked())}.")
        return self.cleaned_data

    def _asked(self) -> list[str]:
        """The fields with which this queue is answered, and the keys of its questions."""
        parts = [name for name in self.base_fields if name not in _NO_ANSWERS and getattr(self.asks, name, True)]
        if self.asks.questions:
            parts.append(f"answers to {', '.join(question.key for question in self.asks.questions)}")
        return parts

    def answered(self) -> Answers:
        """Answers by question key, for questions that apply and were answered. Lists are in the order of the question's options."""
        answers: Answers = {}
        for question in self.asks.of_items:
            value = self.cleaned_data.get(field_of(question))
            if value not in (None, "", []):
                answers[question.key] = _in_order_of(question, value)
        return self.asks.kept(answers)

    def to_answer(self, assignment: Assignment) -> Any:
        """The valid form's answer, as `record` takes it."""
        raise NotImplementedError

    def time_and_guidelines(self) -> dict[str, Any]:
        """The other keyword arguments of `record`."""
        return {
            "seconds": self.cleaned_data["seconds"] or 0.0,
            "guideline_version": self.cleaned_data["guideline_version"] or 0,
        }


def _in_order_of(question: Question, value: Any) -> Any:
    return [option for option in question.options if option in value] if isinstance(value, list) else value


class RowsField(forms.JSONField):
    """A JSON list of objects. `read` parses each; it raises LookupError, TypeError, ValueError, or OverflowError for an invalid one."""

    def __init__(self, read: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
        super().__init__(required=False, empty_value=[])
        self.read = read

    def clean(self, value: Any) -> list[dict[str, Any]]:
        if value in self.empty_values:
            return []
        try:
            return [self.read(_storable(row)) for row in super().clean(value)]
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
            raise UNREADABLE from None


def step_index(row: Mapping[str, Any]) -> int:
    index = row["index"]
    if type(index) is not int or not 0 <= index < STEPS:
        raise ValueError(index)
    return index


def text(value: Any, max_length: int) -> str:
    return str(value)[:max_length]


def _storable(value: Any) -> Any:
    """The same value without characters that Postgres can't store. Raises ValueError for numbers that JSON doesn't have."""
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(value)
    if isinstance(value, str):
        return UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    return [_storable(item) for item in value] if isinstance(value, list) else value


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per step, in step order; of duplicates the later one."""
    return sorted({row["index"]: row for row in rows}.values(), key=lambda row: int(row["index"]))


def _answers_of_step(row: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(row["answers"], dict):
        raise TypeError(row["answers"])
    return {"index": step_index(row), "answers": row["answers"]}


class TrajectoryForm(JudgmentForm):
    """A judgment of a single trajectory, whose steps may have answers of their own."""

    step_answers = RowsField(_answers_of_step)

    def answers_of_steps(self, of_item: Answers) -> dict[str, Answers]:
        """Answers by step index."""
        questions = {question.key: question for question in self.asks.of_steps}
        answers = {}
        for row in in_order(self.cleaned_data["step_answers"]):
            sent = {
                key: _in_order_of(questions[key], value) if key in questions else value
                for key, value in row["answers"].items()
                if value not in (None, "", [])
            }
            unknown = {key: value for key, value in sent.items() if key not in questions}  # refused during validation
            if kept_answers := {**unknown, **self.asks.kept_of_step(sent, of_item)}:
                answers[str(row["index"])] = kept_answers
        return answers


def rows_of_steps(step_answers: Mapping[str, Answers]) -> list[dict[str, Any]]:
    """Answers of steps in the format of drafts."""
    return [{"index": int(index), "answers": answers} for index, answers in step_answers.items()]


class AsksForm(forms.Form):
    """One kind's part of the form of a new queue: what it asks beyond the main question."""

    def __init__(self, *args: Any, workspace: Workspace, **options: Any) -> None:
        super().__init__(*args, **options)
        self.workspace = workspace
