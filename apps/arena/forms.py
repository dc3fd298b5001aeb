"""Forms to start an experiment, and to promote or roll back."""

from typing import Any, cast

from django import forms
from django.utils.crypto import get_random_string

from apps.accounts.models import Membership
from apps.arena.models import Experiment
from apps.arena.stopping_rule import StoppingRule
from apps.common.environments import CHOICES, ENVIRONMENTS, LEVELS
from apps.common.names import NameField
from apps.gateway.splits.models import TrafficSplit
from apps.policies.models import Policy, PolicyQuerySet
from apps.training.workspace_tasks import workspace_environments
from apps.trajectories.models import Task
from apps.trajectories.rollouts.rollout_batches import MAX_EPISODES

MAX_ENVIRONMENTS = 200


class _RuleForm(forms.Form):
    """Settings common to all experiments."""

    name = NameField(max_length=200)
    overlap = forms.IntegerField(
        min_value=1,
        max_value=20,
        initial=1,
        label="Overlap",
        help_text="How many different people judge each pair. Two or more make agreement measurable.",
    )
    min_tasks = forms.IntegerField(
        min_value=2,
        max_value=2000,
        initial=10,
        label="Judged tasks before it may end",
        help_text="It ends when the 95 % interval of the win rate excludes 50 %, or when every task is judged.",
    )

    def __init__(self, *args: Any, member: Membership, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.member = member

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if Experiment.objects.visible_to(self.member).filter(name=name).exists():
            raise forms.ValidationError("There is already an experiment with this name. Choose another name.")
        return name

    @property
    def plan(self) -> dict[str, Any]:
        """Arguments for starting the experiment. The seed is fresh, so that nobody can tune a policy to the tasks that experiments draw."""
        chosen = {name: value for name, value in self.cleaned_data.items() if name != "min_tasks"}
        rule = StoppingRule(min_tasks=self.cleaned_data["min_tasks"])
        return {**chosen, "rule": rule, "seed": int(get_random_string(9, "123456789"))}


class _PlanForm(_RuleForm):
    """Settings common to all experiments on tasks."""

    policy_a = forms.ModelChoiceField(
        Policy.objects.none(), label="Policy A", empty_label="Choose a policy", help_text="Usually the champion."
    )
    policy_b = forms.ModelChoiceField(
        Policy.objects.none(), label="Policy B", empty_label="Choose a policy", help_text="Usually the challenger."
    )
    environment = forms.ChoiceField(choices=())
    samples = forms.IntegerField(
        min_value=1,
        max_value=16,
        initial=1,
        label="Trajectories per task",
        help_text="More tasks are more informative than more attempts.",
    )

    def __init__(self, *args: Any, member: Membership, **kwargs: Any) -> None:
        super().__init__(*args, member=member, **kwargs)
        for side in ("policy_a", "policy_b"):
            cast("forms.ModelChoiceField[Policy]", self.fields[side]).queryset = self.policies.order_by("-id")

    @property
    def policies(self) -> PolicyQuerySet:
        """The policies that may be compared."""
        return Policy.objects.visible_to(self.member).acting()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("policy_a") and cleaned.get("policy_a") == cleaned.get("policy_b"):
            self.add_error("policy_b", "Both sides are the same policy. Choose another one to compare with.")
        return cleaned


class ExperimentForm(_PlanForm):
    """Two policies, the tasks they attempt, and the stopping rule."""

    levels = forms.MultipleChoiceField(
        choices=[(level, level) for level in LEVELS],
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="None: the default levels (all; for the office, L1 to L3).",
    )
    tasks = forms.IntegerField(
        min_value=2,
        max_value=2000,
        initial=40,
        label="Held-out tasks",
        help_text="Both policies attempt the same tasks. Detecting a win rate of 70 % takes about 40 to 100.",
    )
    steps = forms.IntegerField(
        min_value=1,
        max_value=200,
        initial=20,
        required=False,
        label="Maximum steps",
        help_text="A trajectory is cut off after this many steps.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        environments = workspace_environments(self.member.workspace_id, held_out=True)
        cast("forms.ChoiceField", self.fields["environment"]).choices = CHOICES + [
            (name, f"{name}: your own, {count:,} held-out task{'' if count == 1 else 's'}, for runners")
            for name, count in environments
            if name not in ENVIRONMENTS
        ]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        episodes = (cleaned.get("tasks") or 0) * (cleaned.get("samples") or 0)
        if episodes > MAX_EPISODES:
            self.add_error(
                "samples",
                f"These are {episodes:,} rollouts of each policy. Ask for {MAX_EPISODES:,} at most: tasks × attempts.",
            )
        environment = cleaned.get("environment") or ""
        if environment not in ENVIRONMENTS:
            return cleaned
        if unknown := set(cleaned.get("levels", ())) - set(ENVIRONMENTS[environment].levels):
            level_names = ", ".join(ENVIRONMENTS[environment].levels) or "none"
            self.add_error("levels", f"{environment} has no {min(unknown)}; its levels: {level_names}.")
        return cleaned


class RecordedExperimentForm(_PlanForm):
    """Two policies that have attempted the same tasks, which of these tasks, and the stopping rule."""

    tasks = forms.IntegerField(
        min_value=2,
        max_value=2000,
        initial=100,
        label="Maximum tasks",
        help_text="Drawn at random among those that both have attempted.",
    )
    held_out_only = forms.BooleanField(
        required=False,
        label="Held-out tasks only",
        help_text="A policy that was trained on a task has an advantage there.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        here = Task.objects.visible_to(self.member).order_by("environment").values_list("environment", flat=True)
        names = list(here.distinct()[:MAX_ENVIRONMENTS])
        self.fields["environment"].required = "" not in names
        cast("forms.ChoiceField", self.fields["environment"]).choices = [
            (name, name or "Tasks without an environment") for name in names
        ]

    @property
    def policies(self) -> PolicyQuerySet:
        """Includes policies known by name only, since their trajectories were imported."""
        scoring = (Policy.Kind.REWARD_MODEL, Policy.Kind.PROCESS_MODEL)
        return Policy.objects.visible_to(self.member).filter(archived_at=None).exclude(kind__in=scoring)


class LiveExperimentForm(_RuleForm):
    """A traffic split whose two arms are compared in use, and the stopping rule."""

    split = forms.ModelChoiceField(
        TrafficSplit.objects.none(),
        label="Traffic split",
        empty_label="Choose a traffic split",
        help_text="With two arms, drawn by session or by unit.",
    )
    tasks = forms.IntegerField(
        min_value=2,
        max_value=2000,
        initial=100,
        label="Maximum tasks",
        help_text="For each task, the first sessions of the two arms are compared. Detecting a win rate of 70 % takes about 40 to 100.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        splits = TrafficSplit.objects.visible_to(self.member).order_by("name")
        cast("forms.ModelChoiceField[TrafficSplit]", self.fields["split"]).queryset = splits


class PromotionForm(forms.Form):
    """The new champion, and the reason."""

    policy = forms.ModelChoiceField(Policy.objects.none(), empty_label="Choose one of the two")
    reason = forms.CharField(max_length=2000, widget=forms.Textarea(attrs={"rows": 3}))

    def __init__(self, *args: Any, experiment: Experiment, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        first_open = "reason" if self["policy"].value() else "policy"
        self.fields[first_open].widget.attrs["autofocus"] = True
        sides = Policy.objects.filter(pk__in=[experiment.policy_a_id, experiment.policy_b_id])
        cast("forms.ModelChoiceField[Policy]", self.fields["policy"]).queryset = sides


class ReasonForm(forms.Form):
    """The reason for a rollback."""

    reason = forms.CharField(max_length=2000)
