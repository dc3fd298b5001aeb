"""The model card: what a policy is, what it was trained on, and how well it does. Markdown, with the YAML front matter that model hubs read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from apps.common.markdown import plain, table
from apps.datasets.models import Split
from apps.policies.held_out_success import AtLevel, levels_of_policy
from apps.policies.models import Policy
from apps.training.lineage import Origin, origins_of
from apps.training.models import Run
from apps.training.plan import stored_config
from contract.configs import InvalidConfig
from contract.configs.fields import settable_fields
from contract.configs.paths import at, value_text
from contract.hub_ids import is_hub_id

FILE = "README.md"
PIPELINES = {
    Policy.Kind.MODEL: "text-generation",
    Policy.Kind.REWARD_MODEL: "text-classification",
    Policy.Kind.PROCESS_MODEL: "token-classification",
}
"""What hubs call the task of a model, by kind. The other kinds have no weights."""


def model_card(policy: Policy) -> str:
    """Names no annotators, only the number of judgments."""
    origins = origins_of(policy)
    run: Run | None = getattr(policy, "made_by", None)
    lines = [
        *_head(policy, origins, run),
        f"# {plain(policy.name)}",
        "",
        *([plain(policy.description), ""] if policy.description else []),
        _origin_text(policy, run),
        "",
        "## What it learned from",
        "",
        *table(("Policy", "Part", "Made by", "From", "Judgments"), [_origin(origin) for origin in origins]),
        *([f"Only the first {len(origins)} are listed.", ""] if origins.has_more else []),
        "## Held-out success",
        "",
        *_success(levels_of_policy(policy)),
    ]
    if run is not None:
        lines += ["## Settings", "", *table(("Setting", "Value"), _settings(run)), *_changes(run)]
    lines += [
        "## Check it",
        "",
        "`canary.json`, if included, has this policy's log-probabilities of a few texts: a server that returns others doesn't serve these weights. "
        "`retrace.json` has the SHA-256 of every file.",
        "",
    ]
    return "\n".join(lines)


def _head(policy: Policy, origins: Sequence[Origin], run: Run | None) -> list[str]:
    """The YAML front matter. Strings are JSON-encoded, which is valid YAML and can't break out of a line."""
    bases = [origin.policy for origin in takewhile(lambda origin: origin.reward is None, origins)]
    root = bases[-1].location if bases else ""  # not a reward's base
    tags = ["agent", "retrace", *([run.algorithm] if run else [])]
    lines = [f"tags: [{', '.join(tags)}]"]
    if pipeline := PIPELINES.get(Policy.Kind(policy.kind)):
        base_lines = [f"base_model: {json.dumps(root)}"] if is_hub_id(root) else []
        lines = ["library_name: transformers", f"pipeline_tag: {pipeline}", *base_lines, *lines]
    return ["---", *lines, "---", ""]


def _origin_text(policy: Policy, run: Run | None) -> str:
    if run is None:
        return f"{policy.get_kind_display()}, registered in Retrace without a record of its training."
    base_text = f", from {plain(run.base.name)}" if run.base else ", from random weights"
    when = f" on {run.finished_at:%Y-%m-%d}" if run.finished_at else ""
    return f"{policy.get_kind_display()}, made by {run.get_algorithm_display()}{base_text}{when}."


def _origin(origin: Origin) -> tuple[str, ...]:
    """A line for each ancestor of the policy, indented below its descendant."""
    name = f"{'&nbsp;' * 4 * origin.depth}{plain(origin.policy.name)}"
    if origin.reward is not None:
        part = f"reward: {plain(origin.reward.term)}, weight {origin.reward.weight:g}"
    else:
        part = "base" if origin.depth else "this policy"
    if origin.is_repeated:
        return name, part, "as above", "", ""
    if origin.run is None:
        return name, part, "registered", plain(origin.policy.location), ""
    return name, part, origin.run.get_algorithm_display(), _learned_from(origin), f"{origin.judgments or ''}"


def _learned_from(origin: Origin) -> str:
    if origin.version is None:
        return "its own rollouts"
    version = origin.version
    rows = version.row_counts[Split.TRAIN]
    row_type = version.row_type.replace("_", " ")
    return f"{plain(str(version))}: {rows:,} {row_type} training rows, `{version.content_hash[:12]}`"


def _success(levels: Sequence[AtLevel]) -> list[str]:
    if not levels:
        return ["No held-out rollouts are recorded.", ""]
    rows = [
        (
            plain(level.environment),
            plain(level.level),
            level.tasks,
            f"{level.value:.1%} ({level.low:.1%} to {level.high:.1%})",
        )
        for level in levels
    ]
    note = "Share of held-out tasks completed, with 95 % intervals; tasks are the units. Levels aren't pooled: they're different tasks."
    return [*table(("Environment", "Level", "Tasks", "Success"), rows), note, ""]


def _settings(run: Run) -> list[tuple[str, str]]:
    """The basic settings; none if the config was stored by a release with other fields."""
    try:
        config = stored_config(run, run.config)
    except InvalidConfig:
        return []
    fields = [field for field in settable_fields(type(config)) if field.is_basic and field.kind != "terms"]
    return [(field.title, f"`{plain(_written(at(config, field.path)))}` {field.unit}".strip()) for field in fields]


def _changes(run: Run) -> list[str]:
    """The settings that were changed when the run was resumed: the table shows only their last values."""
    changes = run.events.filter(kind="changed").order_by("pk").values_list("details", flat=True)
    lines = [
        "- From step {step} on, `{setting}` was {to} instead of {before}.".format(
            step=change["step"],
            setting=plain(change["setting"]),
            to=plain(value_text(change["to"])),
            before=plain(value_text(change["from"])),
        )
        for change in changes
    ]
    return [*lines, ""] if lines else []


def _written(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
