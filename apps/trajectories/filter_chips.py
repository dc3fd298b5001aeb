"""The active filters of a list in words, each with a link that removes it, so that readers also notice filters that somebody else set."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import NamedTuple
from uuid import UUID

from apps.accounts.models import Membership
from apps.common.ids import parsed_id
from apps.policies.models import Policy
from apps.trajectories import annotators
from apps.trajectories.filters import NO_POLICY, Filters
from apps.trajectories.models import ImportBatch, Task

NAMES = {
    "q": "Words",
    "task": "Task",
    "environment": "Environment",
    "policy": "Policy",
    "outcome": "Outcome",
    "errors": "Errors",
    "min_steps": "At least",
    "max_steps": "At most",
    "tool": "Tool",
    "tag": "Tag",
    "source": "Source",
    "batch": "Import",
    "rollouts": "Rollouts",
    "annotator": "Judged by",
}
VALUE_TEXTS = {
    ("outcome", "none"): "not known",
    ("policy", NO_POLICY): "not known",
    ("errors", "yes"): "some",
    ("errors", "no"): "none",
}


class Chip(NamedTuple):
    """An active filter."""

    name: str
    value: str
    without: str
    """Query string of the list without this filter."""


def chips_of(member: Membership, filters: Filters) -> list[Chip]:
    """One chip per filter, in the order of the form."""
    values = {name: value for name, value in asdict(filters).items() if value}
    return [
        Chip(NAMES[name], value_text(member, name, values[name]), replace(filters, **{name: ""}).query)
        for name in NAMES
        if name in values
    ]


def value_text(member: Membership, name: str, value: str) -> str:
    """The value of the filter `name` in words."""
    if (name, value) in VALUE_TEXTS:
        return VALUE_TEXTS[name, value]
    if name in ("min_steps", "max_steps"):
        return f"{value} step{'' if value == '1' else 's'}"
    key = parsed_id(value)
    return (key and _named(member, name, key)) or value


def _named(member: Membership, name: str, key: UUID) -> str:
    """The name of the object with this id, if this member may see it."""
    match name:
        case "task":
            return Task.objects.visible_to(member).filter(pk=key).values_list("key", flat=True).first() or ""
        case "policy":
            return Policy.objects.visible_to(member).filter(pk=key).values_list("name", flat=True).first() or ""
        case "batch":
            return (
                ImportBatch.objects.visible_to(member).filter(pk=key).values_list("filename", flat=True).first() or ""
            )
        case "annotator":
            return annotators.name_of(member, key)
        case _:
            return ""
