"""The form of a new run."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from django import forms

from apps.accounts.models import Membership
from apps.common.environments import CHOICES
from apps.datasets.models import Version
from apps.policies.models import Policy
from apps.training.choices import CREDITS, LOSSES, METHODS, ONLY_FOR, RANGES, SCOPES, InvalidSetting
from apps.training.launching import LaunchRefused, Plan, check_plan
from apps.training.models import Run
from apps.training.recipes import PRESETS, RunSettings, settings_from

PRACTICE = ("environment", "levels")
ADVANCED = (
    "learning_rate",
    "epochs",
    "max_steps",
    "batch_size",
    "gradient_accumulation",
    "max_length",
    "warmup_steps",
    "beta",
    "loss",
    "label_smoothing",
    "scope",
    "desirable_weight",
    "undesirable_weight",
    "margin",
    "tie_margin",
    "error_weight",
    "tasks",
    "samples",
    "turns",
    "turn_tokens",
    "credit",
    "rounds",
    "lora_rank",
    "checkpoint_every",
    "seed",
    "gradient_checkpointing",
    "pause_on_alarms",
)
HELP = {
    "learning_rate": "At the top of the schedule.",
    "epochs": "Passes over the training rows.",
    "max_steps": "Stop after so many steps; 0 leaves it to the passes.",
    "batch_size": "Rows in one forward pass; for preferences, pairs.",
    "gradient_accumulation": "Forward passes before each step.",
    "max_length": "Longest row in tokens; longer ones are left out and counted.",
    "warmup_steps": "Steps over which the learning rate rises.",
    "beta": "How strongly to stay near the base.",
    "label_smoothing": "Assumed share of wrong labels; for robust, exo_pair and aot.",
    "desirable_weight": "How much a desirable row counts.",
    "undesirable_weight": "How much an undesirable row counts.",
    "margin": "Least difference of rewards for each grade of a judgement’s strength.",
    "tie_margin": "Rewards that differ by less are likely a tie; 0 is half a win each.",
    "error_weight": "How much more a bad turn counts than another.",
    "tasks": "Different ones to practise on.",
    "samples": "Rollouts of each task, compared with each other in a step: then they must divide batch size × accumulation.",
    "turns": "Longest rollout.",
    "rounds": "How often to attempt the tasks, keep what succeeded, and fine-tune the base on it.",
    "turn_tokens": "Longest turn.",
    "lora_rank": "Width of each adapter.",
    "checkpoint_every": "Steps between two checkpoints.",
    "seed": "Fixes the order of rows and the initial weights.",
}
WHOLE = (
    "max_steps",
    "batch_size",
    "gradient_accumulation",
    "max_length",
    "warmup_steps",
    "tasks",
    "samples",
    "turns",
    "turn_tokens",
    "rounds",
    "lora_rank",
    "checkpoint_every",
    "seed",
)


class VersionChoice(forms.ModelChoiceField):  # type: ignore[type-arg]  # generic in the stubs only
    """A frozen version, with its size."""

    def label_from_instance(self, obj: Version) -> str:
        kind = obj.row_type.replace("_", " ")
        return f"{obj} · {obj.row_counts.get('train', 0):,} training rows ({kind})"


class RunForm(forms.Form):
    """What to train, on what, from what. Empty advanced fields mean what the preset says."""

    algorithm = forms.ChoiceField(choices=Run.Algorithm.choices, initial=Run.Algorithm.DPO, widget=forms.RadioSelect)
    version = VersionChoice(
        Version.objects.none(), required=False, label="Dataset version", empty_label="Choose a version"
    )
    environment = forms.ChoiceField(
        choices=CHOICES,
        required=False,
        help_text="Where the policy practises; its held-out tasks measure progress.",
    )
    levels = forms.CharField(
        max_length=100, required=False, help_text="Such as L1 L2; empty is the environment’s usual ones."
    )
    base = forms.ModelChoiceField(
        Policy.objects.none(),
        required=False,
        empty_label="Choose a model",
        label="Begin from",
        help_text="Fine-tuning without one makes a new small model from scratch.",
    )
    preset = forms.ChoiceField(
        choices=[(preset.name, preset.title) for preset in PRESETS.values()],
        initial="standard",
        widget=forms.RadioSelect,
    )
    method = forms.ChoiceField(choices=list(METHODS.items()), initial="full", widget=forms.RadioSelect, label="Trains")
    name = forms.CharField(
        max_length=180,
        required=False,
        help_text="Names the run and the policy that it makes. Empty: made from the choices above.",
    )
    loss = forms.ChoiceField(
        choices=[("", "The usual one"), *((loss, loss) for losses in LOSSES.values() for loss in losses)],
        required=False,
        help_text="By TRL’s names; kto and apo_zero_unpaired are KTO’s.",
    )
    scope = forms.ChoiceField(
        choices=[("", "From the preset"), *SCOPES.items()],
        required=False,
        label="Learns from",
        help_text="Of each side.",
    )
    credit = forms.ChoiceField(
        choices=[("", "From the preset"), *CREDITS.items()],
        required=False,
        label="Credits",
        help_text="What an advantage is given to.",
    )
    gradient_checkpointing = forms.NullBooleanField(
        required=False, help_text="A third slower, much less memory.", label="Recompute activations"
    )
    pause_on_alarms = forms.NullBooleanField(
        required=False,
        help_text="Stop at a checkpoint when a curve shows a known way to go wrong; the run can be resumed.",
        label="Pause on alarms",
    )

    def __init__(self, *args: Any, member: Membership, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.member = member
        self.plan: Plan | None = None
        frozen = Version.objects.visible_to(member).frozen().select_related("dataset").defer("card", "recipe", "files")
        cast("forms.ModelChoiceField[Version]", self.fields["version"]).queryset = frozen.order_by("-id")
        bases = Policy.objects.visible_to(member).trainable().defer("report")
        cast("forms.ModelChoiceField[Policy]", self.fields["base"]).queryset = bases.order_by("-id")
        for name in ADVANCED:
            if name in RANGES:
                self.fields[name] = _number(name)
            elif isinstance(widget := self.fields[name].widget, forms.NullBooleanSelect):
                widget.choices = [("unknown", "From the preset"), *list(widget.choices)[1:]]

    @property
    def chosen_version(self) -> Version | None:
        """The version that a link came from."""
        try:
            given = UUID(str(self.initial.get("version")))
        except ValueError:
            return None
        return Version.objects.visible_to(self.member).frozen().filter(pk=given).first()

    @property
    def unchosen(self) -> dict[str, str]:
        """What the method needs and nobody has chosen yet: by field, in words. To lack it is no mistake while one still chooses."""
        algorithm = self["algorithm"].value()
        needed = {}
        if algorithm not in Run.ONLINE:
            needed["version"] = "a dataset version"
        if algorithm != Run.Algorithm.SFT:
            needed["base"] = "a model to begin from"
        return {name: words for name, words in needed.items() if not self[name].value()}

    @property
    def advanced(self) -> list[tuple[forms.BoundField, tuple[str, ...]]]:
        """The single settings, each with the algorithms that alone have it; none where all do."""
        return [(self[name], ONLY_FOR.get(name, ())) for name in ADVANCED]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        base, algorithm = cleaned["base"], cleaned["algorithm"]
        version = None if algorithm in Run.ONLINE else cleaned["version"]  # hidden then, and whatever it holds
        changes = {
            name: cleaned[name]
            for name in (*PRACTICE, *ADVANCED)
            if cleaned.get(name) not in (None, "") and algorithm in ONLY_FOR.get(name, (algorithm,))
        }
        try:
            settings = settings_from(
                preset=cleaned["preset"],
                algorithm=algorithm,
                method=cleaned["method"],
                parameters=parameters_of(base, algorithm),
                changes=changes,
            )
            plan = Plan(
                workspace=self.member.workspace,
                name=cleaned["name"] or default_name(algorithm, version, settings),
                algorithm=algorithm,
                version=version,
                base=base,
                preset=cleaned["preset"],
                settings=settings,
            )
            check_plan(plan)
        except InvalidSetting as refusal:
            self.add_error(refusal.field if refusal.field in self.fields else None, str(refusal))
        except LaunchRefused as refusal:
            self.add_error(refusal.field if refusal.field in self.fields else None, str(refusal))
        else:
            self.plan = plan
        return cleaned


def parameters_of(base: Policy | None, algorithm: str) -> int | None:
    """How large the base is, where it is known. A new model is small."""
    if base is None:
        return 0
    known: int | None = base.settings.get("parameters")
    return known


def default_name(algorithm: str, version: Version | None, settings: RunSettings) -> str:
    """What a run is called when nobody says."""
    where = f"on {version}" if version else f"in {settings.environment}"
    return f"{Run.Algorithm(algorithm).label} {where}"[:180]


def _number(name: str) -> forms.Field:
    low, high = RANGES[name]
    label = "LoRA rank" if name == "lora_rank" else name.replace("_", " ").capitalize()
    common: dict[str, Any] = {"required": False, "help_text": HELP[name], "label": label}
    if name in WHOLE:
        widget = forms.NumberInput(attrs={"placeholder": "from the preset"})
        return forms.IntegerField(min_value=int(low), max_value=int(high), widget=widget, **common)
    widget = forms.NumberInput(attrs={"step": "any", "placeholder": "from the preset"})
    return forms.FloatField(min_value=low, max_value=high, widget=widget, **common)
