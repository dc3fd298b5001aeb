"""The rows of reward terms: a term with a weight is part of the reward, one without is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms

from apps.training.forms.settings import Choices, form_field, value_of
from apps.training.reward_terms import TermKind, kind_of
from contract.configs.declaration import Source
from contract.configs.fields import ConfigField, settable_fields
from contract.configs.hints import item_of, members_of
from contract.configs.paths import at, written
from contract.configs.rewards import RewardsConfig, RewardTerm, component_of

TERMS: Mapping[str, type[RewardTerm]] = {
    str(cls.model_fields[cls.tag].default): cls  # type: ignore[misc]  # the union's members are all terms
    for cls in members_of(item_of(RewardsConfig.model_fields["terms"].annotation))
}
"""Reward terms by component, in order of declaration."""


def term_field_name(component: str, field: ConfigField) -> str:
    return f"term-{component}-{field.path}"


@dataclass(frozen=True)
class TermRow:
    """One reward component on the page."""

    component: str
    title: str
    help: str
    range: str
    kind: TermKind
    weight: forms.BoundField
    main: list[forms.BoundField]
    more: list[forms.BoundField]

    @property
    def is_open(self) -> bool:
        """Whether any of its advanced settings is filled in."""
        return any(field.errors or field.value() for field in self.more)


def term_form_fields(choices: Callable[[Source], Choices], preset: RewardsConfig) -> dict[str, forms.Field]:
    """The fields of all terms. Weights are filled in for terms of the preset, whose other values apply where fields are empty."""
    preset_terms = {component_of(term): term for term in preset.terms}
    fields: dict[str, forms.Field] = {}
    for component in TERMS:
        for field in settable_fields(TERMS[component]):
            default = at(preset_terms[component], field.path) if component in preset_terms else field.default
            form_field_ = form_field(field, preset=default, choices=choices)
            if field.name == "weight":
                form_field_.initial = written(preset_terms[component].weight) if component in preset_terms else ""
                form_field_.widget.attrs |= {
                    "placeholder": "–",
                    "aria-label": f"Weight of {TERMS[component].TITLE.lower()}",
                }
            fields[term_field_name(component, field)] = form_field_
    return fields


def rows_of(form: forms.Form) -> list[TermRow]:
    rows = []
    for component, cls in TERMS.items():
        fields = {field.name: field for field in settable_fields(TERMS[component])}
        bound = {name: form[term_field_name(component, field)] for name, field in fields.items()}
        weight = bound.pop("weight")
        rows.append(
            TermRow(
                component,
                cls.TITLE,
                cls.__doc__ or "",
                f"{cls.LOW:g} … {cls.HIGH:g}".replace("-", "−"),
                kind_of(cls),
                weight,
                [field for name, field in bound.items() if fields[name].is_basic],
                [field for name, field in bound.items() if not fields[name].is_basic],
            )
        )
    return rows


def terms_from(cleaned: Mapping[str, Any], preset: RewardsConfig) -> list[dict[str, Any]]:
    """The terms that have a weight, as a config takes them; empty fields take the preset's values."""
    preset_terms = {component_of(term): term.to_json() for term in preset.terms}
    terms = []
    for component in TERMS:
        values = {
            field.name: value_of(field, cleaned.get(term_field_name(component, field)))
            for field in settable_fields(TERMS[component])
        }
        if values["weight"] is not None:
            sent = {name: value for name, value in values.items() if value is not None}
            terms.append({"component": component, **preset_terms.get(component, {}), **sent})
    return terms
