"""Forms of retention rules."""

from __future__ import annotations

from typing import Any, cast

from django import forms

from apps.accounts.models import Workspace
from apps.trajectories.models import Trajectory

MAX_DAYS = 3650


class RuleForm(forms.Form):
    """A source that has trajectories, and how long they're kept."""

    source = forms.ChoiceField(label="Source")
    days = forms.IntegerField(
        label="Days",
        min_value=1,
        max_value=MAX_DAYS,
        initial=90,
        help_text="Counted from the arrival of the trajectory.",
    )

    def __init__(self, data: Any = None, *, workspace: Workspace) -> None:
        super().__init__(data)
        sources = Trajectory.objects.filter(workspace=workspace).order_by("source").values_list("source", flat=True)
        cast("forms.ChoiceField", self.fields["source"]).choices = [(source, source) for source in sources.distinct()]


class ChangeRuleForm(forms.Form):
    """Whether a rule is on."""

    is_on = forms.BooleanField(required=False)
