"""A recipe's rules as text, shared by the form and the page of a version."""

from __future__ import annotations

from typing import Any

from apps.datasets.rows import ROW_TYPES

NAMES = {
    "row_type": "Row type",
    "judgments": "Several judgments",
    "aggregation": "Label aggregation",
    "adjudicated": "What reviewers decided",
    "minimum_confidence": "Smallest certainty",
    "minimum_margin": "Smallest lead",
    "minimum_strength": "Smallest strength",
    "ties": "Ties",
    "both_bad": "Both bad",
    "failed_pairs": "Pairs of two failures",
    "annotator_kinds": "Whose judgments",
    "flagged": "Flagged items",
    "seed": "Seed",
    "surrogates": "Broken characters",
}
NEVER_A_ROW = {"count": "Count them in the card", "drop": "Leave them out"}
CHOICES: dict[str, dict[Any, str]] = {
    "row_type": {name: row_type.title for name, row_type in ROW_TYPES.items()},
    "judgments": {"majority": "Aggregated: one row", "each": "Each its own row"},
    "aggregation": {
        "votes": "Majority: the share of votes",
        "dawid_skene": "Dawid–Skene: by each annotator's confusion matrix",
        "glad": "GLAD: by skill and difficulty",
    },
    "adjudicated": {"win": "Overrides the votes", "ignore": "Take only the votes"},
    "minimum_strength": {1: "slightly better", 2: "clearly better", 3: "much better"},
    "ties": NEVER_A_ROW,
    "both_bad": NEVER_A_ROW,
    "failed_pairs": {"keep": "Include them", "leave_out": "Leave them out"},
    "annotator_kinds": {"person": "People", "model": "Models", "rule": "Rules", "user": "Users of an agent"},
    "flagged": {"keep": "Include them", "leave_out": "Leave them out"},
    "surrogates": {"replace": "Replace lone surrogates by U+FFFD", "keep": "Keep their escapes"},
}


def rule_text(rule: str, value: Any) -> str:
    """A rule's value as text."""
    choices = CHOICES.get(rule, {})
    if isinstance(value, list):
        return ", ".join(choices.get(key, str(key)) for key in value)
    return choices.get(value, f"{value} %" if rule == "minimum_confidence" else str(value))
