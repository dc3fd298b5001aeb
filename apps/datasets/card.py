"""The dataset card: a version's contents, its annotators, and their agreement. As JSON and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from apps.annotation.models import Annotator, Queue
from apps.common.markdown import plain, table
from apps.common.quantities import counted
from apps.datasets.figures import STRENGTHS, AgreementRow, Figures, agreement_rows, share
from apps.datasets.models import Split, Version
from apps.datasets.rows import ROW_TYPES
from apps.datasets.selection.drops import REASONS, Drop

NO_LICENSE = "Not stated. The rows quote the trajectories they were made from, and the terms of those apply."


def make_card(version: Version, figures: Figures) -> dict[str, Any]:
    """The card as stored with the version. People appear under pseudonyms; models and rules under their names."""
    queues = Queue.objects.filter(pk__in=version.recipe["queues"]).order_by("name", "pk")
    annotators = Annotator.objects.in_bulk(figures.judgments)
    judged = sum(figures.judgments.values())
    common = {
        "license": version.dataset.license or NO_LICENSE,
        "queues": [{"id": str(queue.pk), "name": queue.name} for queue in queues],
        "pairs": figures.pairs,
        "judgments": judged,
        "rows": {split.value: figures.rows[split.value] for split in Split},
        "tasks": {split.value: len(figures.tasks.get(split.value, ())) for split in Split},
        "dropped": {reason.value: figures.dropped[reason] for reason in Drop if figures.dropped[reason]},
        "environments": _sorted(figures.environments),
        "annotators": _annotators(annotators, figures),
        "policies": _policies(figures),
    }
    if ROW_TYPES[version.row_type].contents:
        messages = {"messages": figures.whole.to_json()} if figures.runs else {}
        return {**common, "runs": figures.runs, "kinds": _sorted(figures.kinds), "lengths": messages}
    return {
        **common,
        "strengths": {name: figures.strengths[name] for name in (*STRENGTHS.values(), "tie", "both_bad")},
        "position": share(figures.left, figures.sided),
        "lengths": {"chosen": figures.chosen.to_json(), "rejected": figures.rejected.to_json()},
        "longer_chosen": share(figures.longer_chosen, sum(figures.rows.values()) - figures.same_length),
        "failed_pairs": share(figures.failed_pairs, sum(figures.rows.values())),
        "agreement": figures.agreement.to_json(),
    }


def _annotators(annotators: dict[UUID, Annotator], figures: Figures) -> list[dict[str, Any]]:
    entries = [
        {
            "id": str(annotator_id),
            "kind": annotators[annotator_id].kind,
            "label": annotators[annotator_id].label,
            "judgments": count,
        }
        | ({"source": annotators[annotator_id].source} if annotators[annotator_id].source else {})
        for annotator_id, count in figures.judgments.items()
    ]
    return sorted(entries, key=lambda entry: (-entry["judgments"], entry["label"]))


def _policies(figures: Figures) -> list[dict[str, Any]]:
    """The policies that generated the rows' trajectories: per side for pairs, or for rows of a single trajectory."""
    counts = {"chosen": figures.chosen_policies, "rejected": figures.rejected_policies, "rows": figures.policies}
    names = sorted({name for counted in counts.values() for name in counted})
    used = {side: counted for side, counted in counts.items() if counted}
    return [{"name": name, **{side: counted[name] for side, counted in used.items()}} for name in names]


def _sorted(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def public_card(version: Version) -> dict[str, Any]:
    """The card with the version's identity, as returned by REST: without the ids of annotators."""
    card = {
        **version.card,
        "annotators": [
            {k: v for k, v in annotator.items() if k != "id"} for annotator in version.card.get("annotators", [])
        ],
    }
    return {
        "dataset": version.dataset.name,
        "description": version.dataset.description,
        "version": version.number,
        "row_type": version.row_type,
        "content_hash": version.content_hash,
        "frozen_at": version.frozen_at.isoformat() if version.frozen_at else None,
        "files": {
            format: {split: {key: entry[key] for key in ("rows", "bytes", "sha256")} for split, entry in splits.items()}
            for format, splits in version.files.items()
        },
        "recipe": version.recipe,
        **card,
    }


def markdown(version: Version) -> str:
    """The card as a README, with the YAML front matter that dataset hubs read."""
    card = version.card
    rows = sum(version.row_counts.values())
    lines = [
        "---",
        "task_categories: [text-generation]",
        f"tags: [{', '.join(ROW_TYPES[version.row_type].tags)}, agent-trajectories]",
        "configs:",
        "- config_name: default",
        "  data_files:",
        *(
            f"  - {{split: {split.value}, path: {split.value}.parquet}}"
            for split in Split
            if version.row_counts[split.value]
        ),
        "---",
        "",
        f"# {plain(version.dataset.name)}, version {version.number}",
        "",
        *([plain(version.dataset.description), ""] if version.dataset.description else []),
        f"{counted(rows, version.row_type.replace('_', ' ') + ' row')} from {counted(card['judgments'], 'judgment')} on {_judged_words(card)}, "
        f"by {_annotator_words(card['annotators'])}.",
        "",
        f"Content hash (SHA-256): `{version.content_hash}`",
        "",
        f"License: {plain(card['license'])}",
        "",
        *table(
            ("Split", "Rows", "Tasks", "SHA-256 of the JSON Lines file"),
            [
                (
                    s.value,
                    card["rows"][s.value],
                    card["tasks"][s.value],
                    f"`{version.files['jsonl'][s.value]['sha256']}`",
                )
                for s in Split
            ],
        ),
        "## Who judged",
        "",
        *table(
            ("Annotator", "Kind", "Judgments"),
            [
                (plain(annotator["label"]), _kind_words(annotator), annotator["judgments"])
                for annotator in card["annotators"]
            ],
        ),
        *(_kind_lines(card) if ROW_TYPES[version.row_type].contents else _pair_lines(card)),
        "## Policies",
        "",
        *table(
            ("Policy", *(side.capitalize() for side in _sides(card))),
            [
                (plain(policy["name"]) or "unknown", *(policy[side] for side in _sides(card)))
                for policy in card["policies"]
            ],
        ),
        "## What was left out",
        "",
        *table(("Reason", "Count"), [(REASONS[Drop(reason)], count) for reason, count in card["dropped"].items()]),
        "## Recipe",
        "",
        *table(("Rule", "Value"), [(name, f"`{value}`") for name, value in version.recipe.items()]),
    ]
    return "\n".join(lines)


def _annotator_words(annotators: Sequence[Mapping[str, Any]]) -> str:
    """How many annotators there are; one of them stands for all users of the agents."""
    kinds = [annotator["kind"] for annotator in annotators]
    people = counted(kinds.count(Annotator.Kind.PERSON), "person", "people")
    machines = counted(sum(kind in Annotator.MACHINES for kind in kinds), "model or rule", "models or rules")
    if Annotator.Kind.USER in kinds:
        return f"{people}, {machines}, and users of the agents"
    return f"{people} and {machines}"


def _kind_words(annotator: dict[str, Any]) -> str:
    return (
        f"{annotator['kind']}, judged in {plain(annotator['source'])}"
        if "source" in annotator
        else str(annotator["kind"])
    )


def _pair_lines(card: dict[str, Any]) -> list[str]:
    return [
        "## How much they agree",
        "",
        *_agreement_lines(card),
        "",
        f"Left side preferred: {_share_words(card['position'])}. Longer trajectory preferred: {_share_words(card['longer_chosen'])}.",
        *([f"Both trajectories failed: {_share_words(card['failed_pairs'])}."] if "failed_pairs" in card else []),
        "",
        *table(("Judgment", "Count"), [(name.replace("_", " "), count) for name, count in card["strengths"].items()]),
    ]


def _kind_lines(card: dict[str, Any]) -> list[str]:
    kinds = [(name.replace("_", " "), count) for name, count in card["kinds"].items()]
    return ["## What they say", "", *table(("What", "Count"), kinds)]


def _judged_words(card: dict[str, Any]) -> str:
    """Whether pairs, trajectories, or both were judged."""
    pairs, runs = card["pairs"], card.get("runs", 0)
    judged = [
        (pairs, "pair of agent trajectories", "pairs of agent trajectories"),
        (runs, "agent trajectory", "agent trajectories"),
    ]
    return " and ".join(counted(*entry) for entry in judged if entry[0]) or "nothing"


def _sides(card: dict[str, Any]) -> list[str]:
    return [side for side in ("chosen", "rejected", "rows") if any(side in policy for policy in card["policies"])]


def _share_words(share: dict[str, Any]) -> str:
    if share["share"] is None:
        return "not known, because no judgment shows it"
    return f"{share['share']:.0%} ({share['count']} of {share['of']}; 95 % interval {share['low']:.0%} to {share['high']:.0%})"


def _agreement_lines(card: dict[str, Any]) -> list[str]:
    return [f"- {line}" for line in map(_agreement_words, agreement_rows(card))] or ["Nothing was judged."]


def _agreement_words(row: AgreementRow) -> str:
    subject = row.whose.capitalize()
    if row.raw["value"] is None:
        return f"{subject}: not known, because {row.raw['undefined_because']}."
    alpha, name = row.alpha, f"Krippendorff's alpha ({row.level})"
    alpha_text = (
        f"{name} is undefined, because {alpha['undefined_because']}"
        if alpha["value"] is None
        else f"{name} {alpha['value']:.2f}{_interval(alpha, '.2f')}"
    )
    pairs = counted(row.raw["items"], "pair")
    share = f"{row.raw['value']:.0%}{_interval(row.raw, '.0%')}"
    return f"{subject}: on {pairs} judged more than once, two agree {share} of the time. {alpha_text}."


def _interval(estimate: Mapping[str, Any], form: str) -> str:
    if estimate["low"] is None:
        return ""
    return f" (95 % interval {estimate['low']:{form}} to {estimate['high']:{form}})"
