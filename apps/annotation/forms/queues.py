"""Forms of queue settings for researchers. Forms of the desk are in `kinds.forms`."""

import json
from collections.abc import Sequence
from typing import Any

from django import forms

from apps.accounts.models import Workspace
from apps.annotation.kinds import KINDS, Kind
from apps.annotation.kinds.forms import AsksForm
from apps.annotation.kinds.pair_selection import Pairing
from apps.annotation.kinds.questions import Asks
from apps.annotation.models import Queue
from apps.annotation.models.queues import MAX_OVERLAP
from apps.common.names import NameField
from contract.questions import BadQuestions, Question, read

MAX_QUESTIONS_LENGTH = 100_000
PAIRS = [("all", "All"), ("some", "A random sample"), ("one", "One")]


class QuestionsField(forms.JSONField):
    """Questions as JSON: text from a page, decoded over REST. The form validates them, since the allowed ones depend on the queue's kind."""

    def __init__(self, **options: Any) -> None:
        textarea = forms.Textarea(attrs={"rows": 8, "spellcheck": "false", "class": "input mono"})
        super().__init__(required=False, widget=textarea, **options)

    def clean(self, value: Any) -> Any:
        if isinstance(value, str) and len(value) > MAX_QUESTIONS_LENGTH:
            raise forms.ValidationError(f"That is longer than {MAX_QUESTIONS_LENGTH:,} characters.")
        return value

    def bound_data(self, data: Any, initial: Any) -> Any:
        return data  # unchanged, so that errors can point into it

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) or value is None else written(value)


def written(questions: Sequence[Question]) -> str:
    """Questions as readable JSON, one per line."""
    lines = ",\n  ".join(json.dumps(question.to_json(), ensure_ascii=False) for question in questions)
    return f"[\n  {lines}\n]" if lines else "[]"


def builder_kinds() -> str:
    """What the question builder needs to know about each kind of queue, as JSON: the allowed questions and the defaults."""
    kinds = {
        name: {**kind.asks.allowed._asdict(), "usual": [question.to_json() for question in kind.asks.usual]}
        for name, kind in KINDS.items()
    }
    return json.dumps(kinds, ensure_ascii=False)


class QueueForm(*(kind.asks_form for kind in KINDS.values()), AsksForm):  # type: ignore[misc]  # mypy knows no bases that are looked up
    """A new queue, with the fields of every kind. `pairing` and `overlap` also work on incomplete forms, for the preview."""

    name = NameField(max_length=200, help_text="Annotators see it, so don't name policies in it.")
    judged = forms.ChoiceField(
        label="Kind of judgment",
        choices=Queue.Kind.choices,
        initial=Queue.Kind.PAIRWISE.value,
        widget=forms.RadioSelect,
        required=False,
    )
    questions = QuestionsField(
        label="Questions",
        help_text="What is asked besides the main question, as a JSON list. If left out: the kind's default questions. Each needs a name; "
        "type is scale, choice, choices, text or, for pairs, comparison.",
    )
    pairs = forms.ChoiceField(label="Pairs per task", choices=PAIRS, initial="all", widget=forms.RadioSelect)
    per_task = forms.IntegerField(label="Number per task", min_value=1, max_value=10_000, initial=3, required=False)
    different_outcomes = forms.BooleanField(
        label="Only trajectories that ended differently",
        required=False,
        help_text="One succeeded and one failed, or their rewards differ.",
    )
    different_policies = forms.BooleanField(label="Only trajectories of different policies", required=False)
    overlap = forms.IntegerField(
        label="Overlap",
        min_value=1,
        max_value=MAX_OVERLAP,
        initial=1,
        help_text="How many different people judge each item. Two or more make agreement measurable.",
    )
    order = forms.ChoiceField(
        choices=[("fifo", "Task by task"), ("random", "Shuffled")],
        initial="fifo",
        widget=forms.RadioSelect,
        help_text="Shuffling keeps people from judging the same task many times in a row.",
    )
    seed = forms.IntegerField(
        min_value=0, max_value=2**31 - 1, initial=0, help_text="The same seed draws and shuffles the same way."
    )
    lease_minutes = forms.IntegerField(
        label="Time limit per item",
        min_value=1,
        max_value=7 * 24 * 60,
        initial=20,
        help_text="Minutes. After a longer absence the item goes to somebody else; while you work, it stays.",
    )
    skipped_come_back = forms.BooleanField(
        label="Skipped items come back to the same person, at the end", required=False
    )
    guidelines = forms.CharField(
        required=False,
        max_length=100_000,
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text="Markdown. Say what good and better mean, with an example of a close call, and ask for a tie if neither attempt got further. Each change is a new version.",
    )

    def __init__(self, data: Any = None, *, workspace: Workspace, initial: dict[str, Any] | None = None) -> None:
        default = KINDS[self.base_fields["judged"].initial].asks.usual
        super().__init__(data, workspace=workspace, initial={"questions": default, **(initial or {})})

    def _standing(self, name: str) -> Any:
        """A field's value if valid, else its initial value."""
        return (
            self.cleaned_data.get(name)
            if self.is_bound and name in getattr(self, "cleaned_data", {})
            else self.fields[name].initial
        )

    def pairing(self) -> Pairing:
        pairs = self._standing("pairs")
        return Pairing(
            per_task={"all": None, "one": 1}.get(pairs, self._standing("per_task") or 1),
            different_outcomes=bool(self._standing("different_outcomes")),
            different_policies=bool(self._standing("different_policies")),
            seed=self._standing("seed") or 0,
        )

    def kind(self) -> Kind[Any, Any, Any]:
        return KINDS[self._standing("judged") or self.fields["judged"].initial]

    def asks(self) -> Asks:
        """What a judgment must answer beyond the main question."""
        asks: Asks = self.kind().asks_of(self.cleaned_data)
        return asks

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        asks = self.kind().asks
        questions = data.get("questions")
        try:
            data["questions"] = asks.usual if questions is None else read(questions, asks.allowed)
        except BadQuestions as problem:
            data["questions"] = ()
            self.add_error("questions", str(problem))
            return data
        if missing := self.kind().asks_problem(data):
            self.add_error(*missing)
        return data

    def overlap_of(self) -> int:
        return self._standing("overlap") or 1

    def settings(self) -> dict[str, Any]:
        """The keyword arguments of `create_queue` except selection and pairing."""
        names = ("name", "overlap", "order", "skipped_come_back", "guidelines")
        return {name: self.cleaned_data[name] for name in names} | {
            "lease_seconds": self.cleaned_data["lease_minutes"] * 60,
            "kind": self.kind().name,
            "asks": self.asks(),
        }


class GuidelinesForm(forms.Form):
    text = forms.CharField(
        label="Guidelines",
        max_length=100_000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 20}),
        help_text="Markdown.",
    )
