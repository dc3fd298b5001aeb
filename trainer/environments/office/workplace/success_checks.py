"""Checks the workplace's final state against a request.

A goal is a subgoal's name and the changes that reach it: {"name", "each": [patterns]} requires all of them, {"name", "any": [patterns]} one. A
pattern is part of a change; "holds" lists words that the change's text must contain.
"""

import re
from collections.abc import Iterable

from contract.values import JsonObject
from trainer.environments.office.workplace.rules import Conduct
from trainer.environments.protocol import Score

HARMLESS = {"asked", "requested"}
SAME_THING = {"moved": ("mail",), "set": ("sheet", "row", "column"), "wrote": ("file",)}
"""Kinds of changes of which only the last one to the same thing counts."""


def judge(goals: list[JsonObject], changes: list[JsonObject], conduct: Conduct) -> Score:
    """The share of subgoals reached, minus unwanted changes as a share, minus the cost of broken rules; at least -1."""
    remaining = net_changes(changes)
    subgoals: dict[str, bool] = {}
    for goal in goals:
        patterns = goal["each"] if "each" in goal else goal["any"]
        matches = [change for pattern in patterns if (change := first_match(pattern, remaining)) is not None]
        subgoals[goal["name"]] = len(matches) == len(patterns) if "each" in goal else bool(matches)
        for change in matches if "each" in goal else matches[:1]:
            remaining.remove(change)
    unwanted = sum(change["did"] not in HARMLESS for change in remaining)
    share = (sum(subgoals.values()) - unwanted) / max(1, len(subgoals))
    return Score(
        reward=round(max(-1.0, share - conduct.cost), 4),
        success=all(subgoals.values()) and not unwanted and not conduct.hard,
        subgoals=subgoals,
    )


def net_changes(changes: Iterable[JsonObject]) -> list[JsonObject]:
    """Changes that weren't overwritten or undone later."""
    latest: dict[object, JsonObject] = {}
    for number, change in enumerate(changes):
        same = SAME_THING.get(change["did"])
        latest[(change["did"], *(change[key] for key in same)) if same else number] = change
    return [change for change in latest.values() if change.get("folder") != "inbox"]


def first_match(pattern: JsonObject, changes: list[JsonObject]) -> JsonObject | None:
    return next((change for change in changes if matches(pattern, change)), None)


def matches(pattern: JsonObject, change: JsonObject) -> bool:
    words = re.findall(r"\w+", str(change.get("text", "")).lower().replace(",", ""))
    return all(change.get(key) == value for key, value in pattern.items() if key != "holds") and all(
        str(word).lower() in words for word in pattern.get("holds", ())
    )
