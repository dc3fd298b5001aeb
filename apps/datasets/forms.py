"""Forms for a dataset's name and for the rules of a version."""

from __future__ import annotations

from typing import Any, cast

from django import forms

from apps.accounts.models import Membership
from apps.annotation.models import Annotator, Queue
from apps.common.names import NameField
from apps.datasets.models import Split
from apps.datasets.queries import freezable_queues, judging_annotators
from apps.datasets.recipe import DEFAULT_SHARES, KINDS, MAX_SEED, BadRecipe, Recipe, check_kinds
from apps.datasets.rule_names import CHOICES, NAMES


class DatasetForm(forms.Form):
    """A new dataset."""

    name = NameField(max_length=200)
    description = forms.CharField(required=False, widget=forms.Textarea(attrs={"rows": 3}))
    license = forms.CharField(
        max_length=200, required=False, help_text="Terms under which the rows may be used. It goes into every card."
    )


class RecipeForm(forms.Form):
    """The rules of the next version; `recipe` holds them once the form is valid."""

    queues: forms.ModelMultipleChoiceField[Queue] = forms.ModelMultipleChoiceField(
        queryset=Queue.objects.none(),
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose at least one queue."},
    )
    row_type = forms.ChoiceField(
        label=NAMES["row_type"],
        choices=list(CHOICES["row_type"].items()),
        initial="preference",
        required=False,
        widget=forms.RadioSelect,
    )
    judgments = forms.ChoiceField(
        label=NAMES["judgments"],
        choices=list(CHOICES["judgments"].items()),
        initial="majority",
        widget=forms.RadioSelect,
    )
    minimum_margin = forms.IntegerField(
        label=NAMES["minimum_margin"],
        min_value=1,
        max_value=1000,
        initial=1,
        help_text="The majority's minimum lead in votes.",
    )
    aggregation = forms.ChoiceField(
        label=NAMES["aggregation"],
        choices=list(CHOICES["aggregation"].items()),
        initial="votes",
        help_text="Gives each row its soft label: the probability that the chosen trajectory is better. The last two also choose it.",
    )
    adjudicated = forms.ChoiceField(
        label=NAMES["adjudicated"],
        choices=list(CHOICES["adjudicated"].items()),
        initial="win",
    )
    minimum_confidence = forms.IntegerField(
        label=NAMES["minimum_confidence"],
        min_value=50,
        max_value=100,
        initial=50,
        help_text="Percent: rows with a lower soft label are left out.",
    )
    minimum_strength = forms.TypedChoiceField(
        label=NAMES["minimum_strength"],
        coerce=int,
        choices=list(CHOICES["minimum_strength"].items()),
        initial=1,
    )
    ties = forms.ChoiceField(
        choices=list(CHOICES["ties"].items()),
        initial="count",
        help_text="They never make a row.",
    )
    both_bad = forms.ChoiceField(
        label=NAMES["both_bad"],
        choices=list(CHOICES["both_bad"].items()),
        initial="count",
        help_text="They never make a row.",
    )
    failed_pairs = forms.ChoiceField(
        label=NAMES["failed_pairs"],
        choices=list(CHOICES["failed_pairs"].items()),
        initial="keep",
        help_text="A policy that learns from them may learn to fail sooner.",
    )
    annotator_kinds = forms.MultipleChoiceField(
        label=NAMES["annotator_kinds"],
        choices=list(CHOICES["annotator_kinds"].items()),
        initial=list(KINDS),
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose at least one kind of annotator."},
    )
    without_annotators: forms.ModelMultipleChoiceField[Annotator] = forms.ModelMultipleChoiceField(
        label="Leave out", queryset=Annotator.objects.none(), required=False, widget=forms.CheckboxSelectMultiple
    )
    flagged = forms.ChoiceField(
        label=NAMES["flagged"],
        choices=list(CHOICES["flagged"].items()),
        initial="keep",
        help_text="Annotators reported a problem with them, shown on the queue's page.",
    )
    train = forms.IntegerField(min_value=0, max_value=100, initial=DEFAULT_SHARES["train"])
    validation = forms.IntegerField(min_value=0, max_value=100, initial=DEFAULT_SHARES["validation"])
    test = forms.IntegerField(min_value=0, max_value=100, initial=DEFAULT_SHARES["test"])
    seed = forms.IntegerField(
        min_value=0, max_value=MAX_SEED, initial=0, help_text="Determines the split of new tasks."
    )
    surrogates = forms.ChoiceField(
        label=NAMES["surrogates"],
        choices=list(CHOICES["surrogates"].items()),
        initial="replace",
        help_text="No tokenizer can encode lone surrogates.",
    )

    recipe: Recipe

    def __init__(self, *args: Any, member: Membership, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._choices("queues").queryset = freezable_queues(member)
        self._choices("without_annotators").queryset = judging_annotators(member)

    def _choices(self, name: str) -> forms.ModelMultipleChoiceField[Any]:
        return cast("forms.ModelMultipleChoiceField[Any]", self.fields[name])

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if self.errors:
            return data
        plain = {
            **data,
            "row_type": data["row_type"] or "preference",
            "queues": [str(queue.pk) for queue in data["queues"]],
            "without_annotators": [str(annotator.pk) for annotator in data["without_annotators"]],
        }
        try:
            self.recipe = Recipe.from_json(plain)
            check_kinds(self.recipe, [queue.kind for queue in data["queues"]])
        except BadRecipe as error:
            self.add_error(error.field if error.field in self.fields else None, error.problem)
        return data

    @property
    def has_annotators(self) -> bool:
        """Whether there are annotators that could be excluded."""
        return bool(self._choices("without_annotators").queryset)

    @property
    def shares(self) -> list[forms.BoundField]:
        """The three split shares, side by side."""
        return [self[split.value] for split in Split]
