"""`python -m bench.learning.tables`: regenerates the tables of docs/learning.md from the stored results.

A table is between `<!-- results of STAGE … -->` and `<!-- end of results -->`, and shows the named stages;
`<!-- results of STAGE …, seeds 5 to 14 -->` limits it to these seeds, and `…, side by side -->` has a column for each of them.
"""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scipy.stats import t as student_t

from bench.learning.results import KEPT, StoredOutcome, read

PAGE = Path(__file__).resolve().parents[2] / "docs" / "learning.md"
TABLE = re.compile(
    r"(?P<begin><!-- results of (?P<stages>[\w -]+)(?:, seeds (?P<first>\d+) to (?P<last>\d+))?(?P<columns>, side by side)? -->\n).*?(?P<end><!-- end of results -->)",
    re.DOTALL,
)
HEAD = """\
| stage | seed | first model | held-out success, n = 300 | gain, points | training, seconds | of 60 held-out tasks along the run, or what it learned from |
|---|---|---|---|---|---|---|
"""


def with_tables(page: str, results: Path) -> str:
    """The page with its tables filled in."""

    def filled(match: re.Match[str]) -> str:
        written = side_by_side if match["columns"] else table
        seeds = range(int(match["first"] or 0), int(match["last"] or 99) + 1)
        return f"{match['begin']}{written(match['stages'].split(), results, seeds=seeds)}{match['end']}"

    return TABLE.sub(filled, page)


def table(stages: Sequence[str], results: Path, *, seeds: Container[int]) -> str:
    """A row for each of these seeds with a stored result, and one for each stage over all of them. Some stages have tables of their own."""
    for stage, own_table in OWN_TABLES.items():
        if stage in stages:
            return own_table([outcome for outcome in read(results, stage) if outcome["seed"] in seeds])
    rows = []
    for stage in stages:
        outcomes = [outcome for outcome in read(results, stage) if outcome["seed"] in seeds]
        rows += [row(stage, outcome) for outcome in outcomes]
        rows += pooled(stage, [outcome["gain"]["value"] for outcome in outcomes])
    return HEAD + lines(rows)


def side_by_side(stages: Sequence[str], results: Path, *, seeds: Container[int]) -> str:
    """A row for each stage that learns from judgments: how many, the share of correct labels, and the gain with each seed and on average."""
    outcomes = {stage: [outcome for outcome in read(results, stage) if outcome["seed"] in seeds] for stage in stages}
    numbers = sorted({outcome["seed"] for of_stage in outcomes.values() for outcome in of_stage})
    head = ["stage", "judgments", "correct labels", *(f"seed {number}" for number in numbers), "mean"]
    rows = []
    for stage, of_stage in outcomes.items():
        gains = {outcome["seed"]: outcome["gain"] for outcome in of_stage}
        rows.append(
            [
                f"`{stage}`",
                f"{fmean(outcome['judgments'] for outcome in of_stage):.0f}",
                f"{100 * fmean(outcome['right'] for outcome in of_stage):.0f} %",
                *(gain_text(gains[number]) if number in gains else "" for number in numbers),
                points(fmean(gain["value"] for gain in gains.values())),
            ]
        )
    return lines([head, ["---"] * len(head), *rows])


def accuracy_table(outcomes: Sequence[StoredOutcome]) -> str:
    """Accuracy of reward models by number and choice of pairs, a row for each seed, and their mean."""
    if not outcomes:
        return ""
    names = list(outcomes[0]["accuracy"])
    head = ["seed", "held-out pairs", *map(choice_text, names)]
    rows = [
        [str(outcome["seed"]), str(outcome["n"]), *(f"{100 * outcome['accuracy'][name]:.1f} %" for name in names)]
        for outcome in outcomes
    ]
    means = (fmean(outcome["accuracy"][name] for outcome in outcomes) for name in names)
    rows.append(["mean", str(sum(outcome["n"] for outcome in outcomes)), *(f"{100 * mean:.1f} %" for mean in means)])
    return lines([head, ["---"] * len(head), *rows])


def gains_table(outcomes: Sequence[StoredOutcome]) -> str:
    """Gains of policies by number and choice of pairs, a row for each seed, and their mean."""
    if not outcomes:
        return ""
    names = list(outcomes[0]["gains"])
    head = ["seed", "first model", *map(choice_text, names)]
    rows = [
        [
            str(outcome["seed"]),
            f"{100 * outcome['before']:.1f} %",
            *(gain_text(outcome["gains"][name]) for name in names),
        ]
        for outcome in outcomes
    ]
    means = (fmean(outcome["gains"][name]["value"] for outcome in outcomes) for name in names)
    rows.append(["mean", "", *map(points, means)])
    return lines([head, ["---"] * len(head), *rows])


def choice_text(name: str) -> str:
    """120 uncertain"""
    order, _, number = name.rpartition("-")
    return f"{number} {order}"


def distance_table(outcomes: Sequence[StoredOutcome]) -> str:
    """A row for each seed and amount of preferences: distance from the first model, learned reward, and success at each evaluation."""
    head = [
        "seed",
        "preferences",
        "ranked correctly",
        "KL penalty β",
        "gain, points",
        "KL per token, nats",
        "learned reward",
        "success",
    ]
    rows = []
    for outcome in outcomes:
        for share in outcome["shares"].values():
            _, divergences, learned, successes = zip(*share["curve"], strict=True)
            rows.append(
                [
                    str(outcome["seed"]),
                    str(share["pairs"]),
                    ranked_text(share["ranked"]),
                    f"{share['beta']:g}",
                    gain_text(share["gain"]),
                    ", ".join(f"{value:.2f}" for value in divergences),
                    ", ".join(f"{value:.2f}".replace("-", "−") for value in learned),
                    ", ".join(f"{100 * value:.0f}" for value in successes) + " %",
                ]
            )
    return lines([head, ["---"] * len(head), *rows])


def preference_table(outcomes: Sequence[StoredOutcome]) -> str:
    """A row for each seed: what GRPO learns from a reward model of people's preferences, alone and beside the environment's outcome."""
    head = ["seed", "preferences", "ranked correctly", "first model", "reward model alone", "outcome and reward model"]
    rows = [
        [
            str(outcome["seed"]),
            str(outcome["pairs"]),
            ranked_text(outcome["ranked"]),
            f"{100 * outcome['before']:.1f} %",
            *(f"{100 * run['after']:.1f} %: {gain_text(run['gain'])}" for run in (outcome, outcome["mixed"])),
        ]
        for outcome in outcomes
    ]
    return lines([head, ["---"] * len(head), *rows])


def reward_table(outcomes: Sequence[StoredOutcome]) -> str:
    """A row for each seed: held-out pairs that the reward model ranks correctly, and their mean."""
    rows = [[str(outcome["seed"]), share_text(outcome), str(outcome["n"])] for outcome in outcomes]
    if outcomes:
        mean = fmean(outcome["after"] for outcome in outcomes)
        rows.append(["mean", f"{100 * mean:.1f} %", str(sum(outcome["n"] for outcome in outcomes))])
    return lines([["seed", "ranked correctly", "pairs"], ["---"] * 3, *rows])


def first_error_table(outcomes: Sequence[StoredOutcome]) -> str:
    """A row for each seed: what the process reward model says of held-out steps, and of trajectories with and without an error."""
    head = ["seed", "steps classified correctly", "first error found", "recognized as free of errors", "F1"]
    rows = [
        [
            str(outcome["seed"]),
            share_text(outcome),
            *(ranked_text(outcome["first_error"][part]) for part in ("with_error", "without_error")),
            f"{outcome['first_error']['f1']:.2f}",
        ]
        for outcome in outcomes
    ]
    if outcomes:
        mean, f1 = (
            fmean(values) for values in zip(*((o["after"], o["first_error"]["f1"]) for o in outcomes), strict=True)
        )
        rows.append(["mean", f"{100 * mean:.1f} %", "", "", f"{f1:.2f}"])
    return lines([head, ["---"] * len(head), *rows])


def share_text(outcome: Mapping[str, Any]) -> str:
    """90.9 % (80.4 to 96.1)"""
    return f"{100 * outcome['after']:.1f} % ({100 * outcome['low']:.1f} to {100 * outcome['high']:.1f})"


def ranked_text(ranked: Mapping[str, float]) -> str:
    """70.0 % of 160"""
    return f"{100 * ranked['value']:.1f} % of {ranked['n']}"


OWN_TABLES = {
    "active": accuracy_table,
    "active-dpo": gains_table,
    "over-optimization": distance_table,
    "over-optimization-success-first": distance_table,
    "human-grpo": preference_table,
    "prm": first_error_table,
    "reward_model": reward_table,
}


def lines(rows: Iterable[Sequence[str]]) -> str:
    """Rows of a Markdown table."""
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def row(stage: str, outcome: dict[str, Any]) -> list[str]:
    return [
        f"`{stage}`",
        str(outcome["seed"]),
        f"{100 * outcome['before']:.1f} %",
        share_text(outcome),
        gain_text(outcome["gain"]),
        f"{outcome['seconds']:.0f}",
        curve(outcome) if "success" in outcome else pairs(outcome),
    ]


def gain_text(gain: dict[str, float]) -> str:
    """+14.0 (+8.4 to +19.6)"""
    return f"{points(gain['value'])} ({points(gain['low'])} to {points(gain['high'])})"


def curve(outcome: dict[str, Any]) -> str:
    """40, 55 %"""
    return ", ".join(f"{100 * value:.0f}" for _, value in outcome["success"]) + " %"


def pairs(outcome: dict[str, Any]) -> str:
    """215 pairs; for annotated pairs also their cost, and how many are right; for several rounds, the success after each. Or the demonstrations."""
    columns = [f"{outcome['pairs']} pairs"] if "pairs" in outcome else []
    if "demonstrations" in outcome:
        columns.append(f"{outcome['demonstrations']} demonstrations, {100 * outcome['demonstrator']:.0f} % successful")
    if "judgments" in outcome:
        columns += [f"{outcome['judgments']} judgments", f"{100 * outcome['right']:.0f} % right"]
    if "rounds" in outcome:
        columns.append(f"{', '.join(f'{100 * value:.1f}' for value in outcome['rounds'])} % after each round")
    return ", ".join(columns)


def pooled(stage: str, gains: list[float]) -> list[list[str]]:
    """The mean gain and its interval over seeds (Student's t): seeds vary the first model, which matters more than tasks. None for fewer than three."""
    if len(gains) < 3:
        return []
    mean, half = fmean(gains), half_interval(gains)
    interval = f"{points(mean)} ({points(mean - half)} to {points(mean + half)})"
    return [[f"`{stage}`", f"all {len(gains)}", "", "", interval, "", ""]]


def half_interval(values: Sequence[float]) -> float:
    """Half the width of the 95 % interval of their mean (Student's t); two values or more."""
    return float(student_t.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5


def points(share: float) -> str:
    """0.14 -> +14.0; -0.021 -> −2.1"""
    return f"{100 * share:+.1f}".replace("-", "−")


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), KEPT), encoding="utf-8")
