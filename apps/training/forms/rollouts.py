"""The form of new rollouts."""

from __future__ import annotations

from typing import Any, cast

from django import forms

from apps.accounts.models import Membership
from apps.common.environments import CHOICES, LEVELS
from apps.gateway.targets import answering
from apps.policies.models import Policy
from apps.training.runner_rollouts import (
    DEADLINE_SECONDS,
    LEASE_SECONDS,
    MAX_CALLS,
    MAX_DEADLINE_SECONDS,
    MAX_RUNNER_CALLS,
)
from apps.training.task_list import BadTask, read_tasks
from apps.training.workspace_tasks import workspace_environments
from apps.trajectories.rollouts.rollout_batches import MAX_STEPS
from contract.trajectory import Task


class RolloutForm(forms.Form):
    """Which policy attempts which tasks, and how often."""

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
    count = forms.IntegerField(min_value=1, max_value=5000, initial=30, label="Number of tasks")
    samples = forms.IntegerField(min_value=1, max_value=64, initial=1, label="Attempts per task")
    temperature = forms.FloatField(min_value=0, max_value=5, initial=1.0, help_text="For language models; 0 is greedy.")
    steps = forms.IntegerField(
        min_value=1,
        max_value=MAX_STEPS,
        initial=20,
        required=False,
        label="Maximum steps",
        help_text="An attempt is cut off after this many steps.",
    )
    tool_calls = forms.ChoiceField(
        choices=[("native", "The model's own"), ("react", "Plain text (ReAct)")],
        label="Tool calls",
        widget=forms.RadioSelect,
        initial="native",
        required=False,
        help_text="For language models. Plain text works with servers without tool calling.",
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


class RunnerRolloutForm(forms.Form):
    """Which policy answers the runners' agents, and on which tasks."""

    policy = forms.ModelChoiceField(
        Policy.objects.none(), empty_label="Choose a policy", help_text="One that a server answers for."
    )
    environment = forms.CharField(
        max_length=100,
        widget=forms.TextInput(attrs={"list": "own-environments", "autocomplete": "off"}),
        help_text="The name by which your runners request episodes.",
    )
    tasks = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 6}),
        label="Tasks",
        help_text='One per line: its instruction, or JSON such as {"key": "order-17", "instruction": "Refund it.", "initial_state": {}}. '
        "Leave it empty to draw tasks that the workspace has attempts at.",
    )
    split = forms.ChoiceField(
        choices=[("held_out", "Held out: to measure"), ("train", "Training: to judge and learn from")],
        widget=forms.RadioSelect,
        initial="held_out",
        required=False,
    )
    count = forms.IntegerField(min_value=1, max_value=5000, initial=30, required=False, label="Maximum tasks")
    seed = forms.IntegerField(
        min_value=0, max_value=2**31 - 1, initial=0, required=False, help_text="The same seed draws the same tasks."
    )
    samples = forms.IntegerField(min_value=1, max_value=64, initial=1, label="Attempts per task")
    steps = forms.IntegerField(
        min_value=1, max_value=MAX_RUNNER_CALLS, initial=MAX_CALLS, label="Maximum calls", help_text="Per episode."
    )
    lease_seconds = forms.IntegerField(
        min_value=10,
        max_value=3600,
        initial=LEASE_SECONDS,
        label="Lease (seconds)",
        help_text="After this long without a call or a renewal, the episode is leased to another runner.",
    )
    deadline_hours = forms.FloatField(
        min_value=0.01,
        max_value=MAX_DEADLINE_SECONDS / 3600,
        initial=DEADLINE_SECONDS // 3600,
        label="Deadline (hours)",
        help_text="From the first lease. Episodes not played by then are left out.",
    )

    def __init__(self, *args: Any, member: Membership, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.own = workspace_environments(member.workspace_id)
        cast("forms.ModelChoiceField[Policy]", self.fields["policy"]).queryset = answering(member).order_by("-id")

    def clean_tasks(self) -> list[Task]:
        try:
            return read_tasks(self.cleaned_data["tasks"])
        except BadTask as problem:
            raise forms.ValidationError(str(problem)) from None
