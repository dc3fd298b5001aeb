"""The form of new rollouts."""

from __future__ import annotations

from typing import Any, cast

from django import forms

from apps.accounts.models import Membership
from apps.common.environments import CHOICES, LEVELS
from apps.policies.models import Policy


class RolloutForm(forms.Form):
    """Who attempts what, how often."""

    policy = forms.ModelChoiceField(Policy.objects.none(), empty_label="Choose a policy")
    environment = forms.ChoiceField(choices=())
    split = forms.ChoiceField(
        choices=[("held_out", "Held out: to measure"), ("train", "Training: to judge and learn from")],
        label="Tasks",
        widget=forms.RadioSelect,
        initial="held_out",
    )
    levels = forms.MultipleChoiceField(
        choices=(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="None: the default levels (all; for the office, L1 to L3).",
    )
    count = forms.IntegerField(min_value=1, max_value=5000, initial=30, label="How many tasks")
    samples = forms.IntegerField(min_value=1, max_value=64, initial=1, label="Attempts at each")
    temperature = forms.FloatField(min_value=0, max_value=5, initial=1.0, help_text="Of language models; 0 is greedy.")
    steps = forms.IntegerField(
        min_value=1,
        max_value=200,
        initial=20,
        required=False,
        label="Most steps",
        help_text="An attempt is cut after them.",
    )
    tool_calls = forms.ChoiceField(
        choices=[("native", "The model’s own"), ("react", "Plain text (ReAct)")],
        label="Tool calls",
        widget=forms.RadioSelect,
        initial="native",
        required=False,
        help_text="Of language models. Plain text works with servers that know no tools.",
    )
    seed = forms.IntegerField(
        min_value=0, max_value=2**31 - 1, initial=0, help_text="The same seed draws the same tasks."
    )

    def __init__(self, *args: Any, member: Membership, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        acting = Policy.objects.visible_to(member).acting().order_by("-id")
        cast("forms.ModelChoiceField[Policy]", self.fields["policy"]).queryset = acting
        cast("forms.ChoiceField", self.fields["environment"]).choices = CHOICES
        cast("forms.MultipleChoiceField", self.fields["levels"]).choices = [(level, level) for level in LEVELS]
