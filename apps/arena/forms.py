"""What a researcher fills in."""

from typing import Any, cast

from django import forms

from apps.accounts.models import Membership
from apps.arena.models import Experiment
from apps.arena.stopping import StoppingRule
from apps.common.environments import CHOICES
from apps.policies.models import Policy


class ExperimentForm(forms.Form):
    """Two policies, the tasks they attempt, and when it ends."""

    name = forms.CharField(max_length=200)
    policy_a = forms.ModelChoiceField(
        Policy.objects.none(), label="Policy A", empty_label="Choose a policy", help_text="Usually the champion."
    )
    policy_b = forms.ModelChoiceField(
        Policy.objects.none(), label="Policy B", empty_label="Choose a policy", help_text="Usually the challenger."
    )
    environment = forms.ChoiceField(choices=())
    tasks = forms.IntegerField(
        min_value=2,
        max_value=2000,
        initial=40,
        label="Held-out tasks",
        help_text="Both policies attempt the same ones. A win rate of 70 % needs about 40 to 100 to show.",
    )
    samples = forms.IntegerField(
        min_value=1, max_value=16, initial=1, label="Runs of each task", help_text="More tasks say more than more runs."
    )
    overlap = forms.IntegerField(
        min_value=1,
        max_value=20,
        initial=1,
        label="People for each pair",
        help_text="Different people; two or more show agreement.",
    )
    min_tasks = forms.IntegerField(
        min_value=2,
        max_value=2000,
        initial=10,
        label="Judged tasks before it may end",
        help_text="It ends when the 95 % interval of the win rate leaves out 50 %, or when every task is judged.",
    )

    def __init__(self, *args: Any, member: Membership, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.member = member
        policies = Policy.objects.visible_to(member).acting().order_by("-id")
        for side in ("policy_a", "policy_b"):
            cast("forms.ModelChoiceField[Policy]", self.fields[side]).queryset = policies
        cast("forms.ChoiceField", self.fields["environment"]).choices = CHOICES

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if Experiment.objects.visible_to(self.member).filter(name=name).exists():
            raise forms.ValidationError(
                "There is an experiment of this name. Choose another, so that people can tell them apart."
            )
        return name

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("policy_a") and cleaned.get("policy_a") == cleaned.get("policy_b"):
            self.add_error("policy_b", "Both sides are the same policy. Choose another one to compare with.")
        return cleaned

    @property
    def rule(self) -> StoppingRule:
        return StoppingRule(min_tasks=self.cleaned_data["min_tasks"])


class PromotionForm(forms.Form):
    """Who becomes champion, and why."""

    policy = forms.ModelChoiceField(Policy.objects.none())
    reason = forms.CharField(max_length=2000, widget=forms.Textarea(attrs={"rows": 3}))

    def __init__(self, *args: Any, experiment: Experiment, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        sides = Policy.objects.filter(pk__in=[experiment.policy_a_id, experiment.policy_b_id])
        cast("forms.ModelChoiceField[Policy]", self.fields["policy"]).queryset = sides


class ReasonForm(forms.Form):
    """Why a champion is taken back."""

    reason = forms.CharField(max_length=2000)
