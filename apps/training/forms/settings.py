"""Form fields derived from a config's declaration: one per setting; empty means the preset's value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from django import forms

from contract.configs.declaration import Config, Source
from contract.configs.fields import ConfigField, fields_of
from contract.configs.paths import written

Choices = Sequence[tuple[str, str]]
PRESET = "Preset"


def form_name(path: str) -> str:
    """The name of a setting's form field: `optimizer.batch_size` is `optimizer-batch_size`."""
    return path.replace(".", "-")


def form_field(field: ConfigField, *, preset: Any, choices: Callable[[Source], Choices]) -> forms.Field:
    """The form field of a setting. Only the config checks ranges, since it has the error messages for them."""
    label = f"{field.title} ({field.unit})" if field.unit else field.title
    common: dict[str, Any] = {"required": False, "label": label, "help_text": field.help}
    if field.kind == "choice" or field.source in ("environment", "reward_model", "process_model", "judge"):
        options = list(field.choices.items()) if field.choices else list(choices(field.source)) if field.source else []
        default = dict(options).get(str(preset), str(preset or ""))
        return forms.ChoiceField(
            choices=[("", f"{PRESET}: {default}" if default else "Choose one"), *options], **common
        )
    if field.kind == "switch":
        default = "on" if preset else "off"
        return forms.ChoiceField(choices=[("", f"{PRESET}: {default}"), ("true", "On"), ("false", "Off")], **common)
    attrs = {"placeholder": written(preset)}
    if field.kind in ("whole", "number"):
        attrs |= {"step": "1" if field.kind == "whole" else "any"} | limits(field)
        number = forms.NumberInput(attrs=attrs)
        return (forms.IntegerField if field.kind == "whole" else forms.FloatField)(widget=number, **common)
    if field.kind == "words":
        common["help_text"] = f"{field.help} Separate names with spaces."
    if field.name == "rubric":
        return forms.CharField(widget=forms.Textarea(attrs={**attrs, "rows": 3}), **common)
    return forms.CharField(max_length=4000, widget=forms.TextInput(attrs=attrs), **common)


def limits(field: ConfigField) -> dict[str, str]:
    """HTML attributes for the browser's own validation. An exclusive lower bound has none."""
    ends = {"min": None if field.range.is_open else field.range.low, "max": field.range.high}
    return {name: f"{end:.10g}" for name, end in ends.items() if end is not None}


def value_of(field: ConfigField, cleaned: Any) -> Any:
    """The config value of a form value; None if the field is empty."""
    if cleaned in (None, ""):
        return None
    if field.kind == "switch":
        return cleaned == "true"
    return cleaned.split() if field.kind == "words" else cleaned


def settings_shown(
    cls: type[Config], *, with_adapters: bool, from_scratch: bool, trackers: Sequence[str]
) -> list[ConfigField]:
    """The settings that people can change, without those that don't apply to this run or have no options here."""
    hidden = [] if with_adapters else ["lora."]
    hidden += [] if from_scratch else ["model.scratch."]
    hidden += [] if len(trackers) > 1 else ["tracker"]
    return [
        replace(field, choices={name: field.choices[name] for name in trackers}) if field.path == "tracker" else field
        for field in fields_of(cls)
        if not field.internal and field.kind != "terms" and not field.path.startswith(tuple(hidden))
    ]
