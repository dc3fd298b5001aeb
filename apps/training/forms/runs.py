"""The form of a new run: base, data, and every setting of the chosen algorithm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, cast

from django import forms
from django.forms.models import ModelChoiceIterator

from apps.accounts.models import Membership
from apps.common.environments import CHOICES, ENVIRONMENTS
from apps.common.ids import parsed_id
from apps.common.names import NameField
from apps.datasets.models import Version
from apps.datasets.rows import ROW_TYPES
from apps.policies.models import Policy
from apps.policies.registration import NoSuchPlace, hub_base
from apps.training.forms.settings import Choices, form_field, form_name, settings_shown, value_of
from apps.training.forms.terms import TermRow, rows_of, term_form_fields, terms_from
from apps.training.models import Run
from apps.training.plan import Plan, available_trackers, plan_run, preset_config
from apps.training.presets import METHODS, PRESETS
from apps.training.refusals import LaunchRefused, SettingsRefused
from apps.training.reward_terms import FormulaPart, candidates, formula
from apps.training.workspace_tasks import workspace_environments
from contract.configs import TRAINING_CONFIGS, InvalidField, OnlineConfig, TrainingConfig
from contract.configs.declaration import Source
from contract.configs.fields import ConfigField
from contract.configs.paths import at, nested
from contract.hub_ids import is_hub_id

GENERAL = "The run"
PLAYED_BY_RUNNERS = [name for name, config in TRAINING_CONFIGS.items() if issubclass(config, OnlineConfig)]
TERM_AT = re.compile(r"rewards\.terms\[(\d+)\]\.?(.*)")


class VersionsByRowType(ModelChoiceIterator):  # type: ignore[type-arg]  # generic in the stubs only
    """The versions in groups, since each algorithm learns from certain row types."""

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        yield "", self.field.empty_label
        versions = list(self.queryset)
        for name, row_type in ROW_TYPES.items():
            group = [self.choice(version) for version in versions if version.row_type == name]
            if group:
                yield row_type.title.partition(":")[0], group


class VersionChoice(forms.ModelChoiceField):  # type: ignore[type-arg]  # generic in the stubs only
    """A frozen version, labeled with its size."""

    iterator = VersionsByRowType

    def label_from_instance(self, obj: Version) -> str:
        return f"{obj} · {obj.row_counts.get('train', 0):,} training rows"


class RunForm(forms.Form):
    """Empty settings take the preset's values, which their placeholders show."""

    algorithm = forms.ChoiceField(choices=Run.Algorithm.choices, initial=Run.Algorithm.DPO, widget=forms.RadioSelect)
    version = VersionChoice(
        Version.objects.none(), required=False, label="Dataset version", empty_label="Choose a version"
    )
    base = forms.ModelChoiceField(
        Policy.objects.none(),
        required=False,
        empty_label="Choose a model",
        label="Start from",
        help_text="Only supervised fine-tuning can start without one: it creates a small model.",
    )
    hub_base = forms.CharField(
        max_length=200,
        required=False,
        label="Or a model on the hub",
        help_text="By its id; registered as a policy when the training run is launched.",
        widget=forms.TextInput(attrs={"placeholder": "Qwen/Qwen3-0.6B", "autocomplete": "off", "spellcheck": "false"}),
    )
    preset = forms.ChoiceField(
        choices=[(preset.name, preset.title) for preset in PRESETS.values()],
        initial="standard",
        widget=forms.RadioSelect,
    )
    method = forms.ChoiceField(
        choices=list(METHODS.items()), initial="full", widget=forms.RadioSelect, label="Weights to train"
    )
    name = NameField(
        max_length=180,
        required=False,
        help_text="Names the training run and its policy. Empty: generated from the choices above.",
    )

    def __init__(self, *args: Any, member: Membership, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.member = member
        self.plan: Plan | None = None
        self._sent_terms: list[dict[str, Any]] = []
        frozen = Version.objects.visible_to(member).frozen().select_related("dataset").defer("card", "recipe", "files")
        cast("forms.ModelChoiceField[Version]", self.fields["version"]).queryset = frozen.order_by("-id")
        bases = Policy.objects.visible_to(member).trainable().defer("report")
        cast("forms.ModelChoiceField[Policy]", self.fields["base"]).queryset = bases.order_by("-id")
        self.usual: TrainingConfig = preset_config(
            preset=self._choice("preset", PRESETS, "standard"),
            algorithm=self.chosen_algorithm,
            method=self._choice("method", METHODS, "full"),
            base=self._chosen_base,
        )
        for setting in self.settings:
            self.fields[form_name(setting.path)] = form_field(
                setting, preset=at(self.usual, setting.path), choices=self._choices
            )
        if isinstance(self.usual, OnlineConfig):
            self.fields |= term_form_fields(self._choices, self.usual.rewards)

    @property
    def chosen_algorithm(self) -> str:
        return self._choice("algorithm", TRAINING_CONFIGS, Run.Algorithm.DPO)

    @cached_property
    def settings(self) -> list[ConfigField]:
        """The settings of the chosen algorithm."""
        return settings_shown(
            TRAINING_CONFIGS[self.chosen_algorithm],
            with_adapters=self._choice("method", METHODS, "full") != "full",
            from_scratch=self._chosen_base is None,
            trackers=available_trackers(),
        )

    @property
    def basic(self) -> list[forms.BoundField]:
        """The settings shown at first."""
        return [self[form_name(setting.path)] for setting in self.settings if setting.is_basic]

    @property
    def advanced(self) -> list[tuple[str, list[forms.BoundField]]]:
        """The remaining settings, by section."""
        sections: dict[str, list[forms.BoundField]] = {}
        for setting in self.settings:
            if not setting.is_basic:
                sections.setdefault(setting.section or GENERAL, []).append(self[form_name(setting.path)])
        return list(sections.items())

    @property
    def is_advanced_open(self) -> bool:
        """Whether an advanced setting has an error."""
        return any(field.errors for _, fields in self.advanced for field in fields)

    @property
    def terms(self) -> list[TermRow]:
        """The rows of reward terms; empty if the algorithm has no reward."""
        return rows_of(self) if isinstance(self.usual, OnlineConfig) else []

    @property
    def formula(self) -> list[FormulaPart]:
        """The reward of the plan, or of the preset until there is a plan."""
        if self.plan is not None and isinstance(self.plan.config, OnlineConfig):
            return formula(self.plan.config.rewards, self.plan.rewards)
        return formula(self.usual.rewards) if isinstance(self.usual, OnlineConfig) and not self.is_bound else []

    @property
    def reward_warning(self) -> str:
        """Explains how a failed rollout could earn more than a successful one; empty if none can."""
        config = self.plan.config if self.plan else self.usual
        return config.rewards.warning if isinstance(config, OnlineConfig) else ""

    @property
    def is_online(self) -> bool:
        """Whether the algorithm learns from rollouts generated during the run."""
        return self.chosen_algorithm in Run.ONLINE

    @property
    def has_reward(self) -> bool:
        return isinstance(self.usual, OnlineConfig)

    @property
    def chosen_version(self) -> Version | None:
        """The version preselected by the link to this page."""
        if (version_id := parsed_id(self.initial.get("version"))) is None:
            return None
        return Version.objects.visible_to(self.member).frozen().filter(pk=version_id).first()

    @property
    def unchosen(self) -> dict[str, str]:
        """Required fields that are still empty, with a hint for each. While the form is being filled in, these aren't errors."""
        needed = {}
        if not self.is_online:
            needed["version"] = "a dataset version"
        if self.chosen_algorithm != Run.Algorithm.SFT:
            needed["base"] = "a model to start from"
        chosen = {"version": self["version"].value(), "base": self["base"].value() or self["hub_base"].value()}
        return {name: hint for name, hint in needed.items() if not chosen[name]}

    def clean_hub_base(self) -> Policy | None:
        hub_id = self.cleaned_data["hub_base"]
        if hub_id and self.cleaned_data.get("base"):
            raise forms.ValidationError("Choose one base: a policy above, or a model on the hub.", code="two_bases")
        try:
            return hub_base(workspace=self.member.workspace, hub_id=hub_id) if hub_id else None
        except NoSuchPlace as refusal:
            raise forms.ValidationError(str(refusal), code="no_hub_id") from None

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        values = {
            setting.path: value
            for setting in self.settings
            if (value := value_of(setting, cleaned.get(form_name(setting.path)))) is not None
        }
        changes = nested(values)
        self._sent_terms = terms_from(cleaned, self.usual.rewards) if isinstance(self.usual, OnlineConfig) else []
        if self._sent_terms or any(name.startswith("term-") for name in self.data):
            changes |= {"rewards": {"terms": self._sent_terms}} if self.has_reward else {}
        try:
            self.plan = plan_run(
                member=self.member,
                algorithm=cleaned["algorithm"],
                version=None if self.is_online else cleaned["version"],  # the field is hidden then; ignore its value
                base=cleaned["base"] or cleaned["hub_base"],
                preset=cleaned["preset"],
                method=cleaned["method"],
                changes=changes,
                name=cleaned["name"],
            )
        except SettingsRefused as refusal:
            for problem in refusal.problems:
                self._add_problem(problem)
        except LaunchRefused as refusal:
            self.add_error(self.field_at(refusal.field), str(refusal))
        return cleaned

    def field_at(self, path: str) -> str | None:
        """The form field for a dotted path of a config."""
        if match := TERM_AT.fullmatch(path):
            index = int(match[1])
            component = self._sent_terms[index]["component"] if index < len(self._sent_terms) else ""
            name = f"term-{component}-{match[2] or 'weight'}"
        elif path == "base" and self.data.get("hub_base"):
            name = "hub_base"
        elif path == "rewards.terms":
            name = "term-outcome-weight"
        else:
            name = form_name(path.partition("[")[0])
        return name if name in self.fields else None

    def _add_problem(self, problem: InvalidField) -> None:
        name = self.field_at(problem.field)
        message = problem.message if name else f"{problem.field}: {problem.message}"
        self.add_error(name, message)

    def _choices(self, source: Source) -> Choices:
        if source == "environment":
            environments = (
                []
                if self.chosen_algorithm not in PLAYED_BY_RUNNERS
                else workspace_environments(self.member.workspace_id)
            )
            return CHOICES + [
                (name, f"{name}: your own, {count:,} task{'' if count == 1 else 's'}, for runners")
                for name, count in environments
                if name not in ENVIRONMENTS
            ]
        return [(str(policy.pk), policy.name) for policy in candidates(self.member, source)]

    def _value(self, name: str) -> Any:
        return self.data.get(name) if self.is_bound else self.initial.get(name)

    def _choice(self, name: str, choices: Mapping[str, object], default: str) -> str:
        chosen = self._value(name)
        return chosen if isinstance(chosen, str) and chosen in choices else str(default)

    @cached_property
    def _chosen_base(self) -> Policy | None:
        hub_id = self._value("hub_base")
        if hub_id and is_hub_id(str(hub_id)):
            return hub_base(workspace=self.member.workspace, hub_id=str(hub_id))
        if (policy_id := parsed_id(self._value("base"))) is None:
            return None
        return Policy.objects.visible_to(self.member).trainable().filter(pk=policy_id).first()
