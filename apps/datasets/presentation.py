"""A version's card and rows prepared for display."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from django.urls import reverse

from apps.accounts.models import Membership
from apps.annotation.models import Annotator
from apps.datasets import rule_names
from apps.datasets.models import Split, Version
from apps.datasets.queries import SampleRow
from apps.datasets.rows import ROW_TYPES
from apps.datasets.selection.drops import REASONS, Drop
from apps.trajectories.rendering.text import excerpt, legible, one_line

Message = dict[str, Any]
SIDES = ("chosen", "rejected", "completion", "messages")
MANY_MESSAGES = 12
"""Maximum number of messages shown per side; the replay shows all of them."""


class MessageView(NamedTuple):
    """A chat message for display."""

    role: str
    text: str
    cut: int
    """Number of characters left out."""
    calls: list[str]
    reasoning: str


class SideView(NamedTuple):
    """The chosen or the rejected side."""

    name: str
    policy: str
    replay: str
    messages: list[MessageView]
    more: int


class RowView(NamedTuple):
    """A row for display."""

    number: int
    row: dict[str, Any]
    prompt: list[MessageView]
    sides: list[SideView]
    tools: list[str]
    facts: list[str]
    """What was judged, as text."""
    judged_by: list[tuple[str, str]]
    """(annotator, judgment id) of each judgment behind the row."""


def row_view(sample: SampleRow) -> RowView:
    """A sample row with its messages truncated for display."""
    row = sample.row
    judgments = row["judgments"] if "judgments" in row else row["judgements"]  # how versions frozen before spell it
    return RowView(
        sample.number,
        row,
        [_message(message) for message in row.get("prompt", [])],
        [_side(row, name) for name in SIDES if name in row],
        [legible(str(tool.get("function", {}).get("name", "tool"))) for tool in json.loads(row["tools"])],
        _facts(row),
        list(zip(row["annotators"], judgments, strict=True)),
    )


def _facts(row: dict[str, Any]) -> list[str]:
    if "votes_for" in row:
        votes = f"{row['votes_for']} for, {row['votes_against']} against"
        neither = f", {row['votes_tied']} neither" if row["votes_tied"] else ""
        return [f"strength {row['strength']:g}", votes + neither]
    if "step_labels" in row:
        signs = "".join(map(_sign, row["step_labels"]))
        error = row["first_error"]
        first_error = [] if error is None else ["no error" if error < 0 else f"first error at step {error + 1}"]
        return [f"steps {signs}", *first_error]
    if "label" in row:
        return ["desirable" if row["label"] else "undesirable", f"weight {row['weight']:g}"]
    if "train_turns" in row:
        return [row["origin"], f"{sum(row['train_turns'])} of {len(row['train_turns'])} turns are trained on"]
    return [row["origin"], f"step {row['step'] + 1}"]


def _sign(label: float | None) -> str:
    if label is None:
        return "·"
    return "+" if label > 0 else "−" if label < 0 else "0"


def _side(row: dict[str, Any], name: str) -> SideView:
    messages = row[name]
    run = row.get(f"{name}_run", row.get("run", ""))
    return SideView(
        name,
        row.get(f"{name}_policy", row.get("policy", "")),
        reverse("trajectories:detail", args=[UUID(run)]) if run else "",
        [_message(message) for message in messages[:MANY_MESSAGES]],
        max(0, len(messages) - MANY_MESSAGES),
    )


def _message(message: Message) -> MessageView:
    content = excerpt(legible(str(message.get("content") or "")))
    return MessageView(
        str(message["role"]),
        content.text,
        content.total - content.end,
        [_call(call["function"]) for call in message.get("tool_calls", [])],
        one_line(str(message.get("reasoning_content") or ""), 300),
    )


def _call(function: dict[str, Any]) -> str:
    arguments = function["arguments"]
    if isinstance(arguments, dict):
        arguments = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return one_line(f"{function['name']}({arguments})", 400)


@dataclass(frozen=True)
class AnnotatorView:
    """An annotator: under their name for owners, otherwise under the name used in the rows."""

    name: str
    label: str
    kind: str
    judgments: int
    source: str
    """Where they judged, if outside Retrace."""


def annotator_views(version: Version, member: Membership) -> list[AnnotatorView]:
    """The annotators. Owners see who is behind each pseudonym; models and rules are shown under their names."""
    entries = version.card["annotators"]
    names: dict[str, str] = {}
    if member.is_owner:
        annotators = Annotator.objects.visible_to(member).filter(pk__in=[entry["id"] for entry in entries])
        names = {str(annotator.pk): str(annotator) for annotator in annotators}
    return [
        AnnotatorView(
            names.get(entry["id"], entry["label"].partition(":")[2]),
            entry["label"],
            entry["kind"],
            entry["judgments"],
            entry.get("source", ""),
        )
        for entry in entries
    ]


class SplitView(NamedTuple):
    """One split of a frozen version."""

    split: Split
    rows: int
    tasks: int
    share: float
    jsonl: dict[str, Any]
    parquet: dict[str, Any]


def split_views(version: Version) -> list[SplitView]:
    """The splits with their files."""
    total = sum(version.row_counts.values())
    return [
        SplitView(
            split,
            version.row_counts[split.value],
            version.card["tasks"][split.value],
            version.row_counts[split.value] / total,
            version.files["jsonl"][split.value],
            version.files["parquet"][split.value],
        )
        for split in Split
    ]


def policy_views(version: Version) -> dict[str, Any]:
    """Row counts by policy and side: the sides that occur, and a line of counts for each policy."""
    policies = version.card["policies"]
    sides = [side for side in ("chosen", "rejected", "rows") if any(side in policy for policy in policies)]
    rows = [(policy["name"], [policy.get(side, 0) for side in sides]) for policy in policies]
    return {"policy_sides": sides, "policy_rows": rows}


def dropped_views(version: Version) -> list[tuple[str, int]]:
    """Reasons why judged items became no rows, as text, with counts."""
    return [(REASONS[Drop(reason)], count) for reason, count in version.card["dropped"].items()]


OF_PAIRS = ("aggregation", "minimum_confidence", "minimum_strength", "ties", "both_bad")


def rule_views(version: Version) -> list[tuple[str, str]]:
    """The recipe as (title, value) pairs, without rules that don't apply to its row type."""
    recipe = version.recipe
    silent = () if ROW_TYPES[version.row_type].pairs else OF_PAIRS
    rules = [key for key in rule_names.NAMES if key in recipe and key not in silent]
    views = [(rule_names.NAMES[key], rule_names.rule_text(key, recipe[key])) for key in rules]
    shares = " / ".join(f"{recipe[split]}" for split in Split.values)
    left_out = len(recipe["without_annotators"])
    return [*views, ("Shares", f"{shares} %"), ("Left out", f"{left_out} annotator{'' if left_out == 1 else 's'}")]
