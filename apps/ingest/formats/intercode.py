"""InterCode results: an object of episodes by number, each with parallel lists of actions, observations, and rewards (Yang et al., 2023,
arXiv 2306.14898).

The reward is the highest one reached, and success is a reward of 1, as in the paper; the policy is only in the file's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

from apps.ingest.formats import Format
from apps.ingest.normalization.actions import read_moves
from apps.ingest.normalization.fields import (
    first_of,
    mapping,
    optional_list,
    required_list,
    reward_of,
    succeeded_by,
    text,
)
from apps.ingest.records import BadRow, Json, TrajectoryRecord, read_each
from contract import jsontext

EXPECTED = "An object of episodes, each with `query` and `turn_history` (or `trajectory`)."
KEPT = ("dataset", "gold", "summary", "info")


def _is_episode(value: Json) -> bool:
    details = mapping(value)
    return "query" in details and (
        "actions" in mapping(details.get("turn_history")) or type(details.get("trajectory")) is list
    )


def _episodes(row: Json) -> dict[str, Json]:
    """Episodes by number. One variant nests them under `logs`, beside a description."""
    return mapping(mapping(row).get("logs")) or mapping(row)


def _accepts(row: Json) -> bool:
    return _is_episode(next(iter(_episodes(row).values()), None))


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", EXPECTED)
    episodes = [(f"Episode {name[:40]}", {name: episode}) for name, episode in _episodes(row).items()]
    yield from read_each(episodes, lambda part: _trajectory(part, filename))


def _trajectory(part: dict[str, Json], filename: str) -> Iterator[TrajectoryRecord]:
    for name, episode in part.items():
        if not _is_episode(episode):
            raise BadRow(f"It is {jsontext.describe(episode)} without `query` or actions.", EXPECTED)
        yield from read_moves(_plain(episode, name), filename)


def _plain(episode: dict[str, Any], name: str) -> dict[str, Json]:
    """The episode in Retrace's simple form, where an observation precedes the action taken on it."""
    taken = _of_lists(mapping(episode.get("turn_history"))) if "turn_history" in episode else _of_pairs(episode)
    observations = [None, *(observation for _, observation in taken)]
    best = reward_of(first_of(mapping(episode.get("summary")), "max_reward"))
    reward = reward_of(episode.get("reward")) if best is None else best
    return {
        "id": name,
        "task_id": text(first_of(episode, "task_id", "query_idx")) or name,
        "instruction": text(episode.get("query")),
        "environment": "/".join(filter(None, (text(episode.get("environment")) or "intercode", _dataset(episode)))),
        "difficulty": text(episode.get("hardness")),
        "steps": [
            {**step, **({} if before is None else {"obs": before})}
            for (step, _), before in zip(taken, observations, strict=False)
        ],
        "final_obs": observations[-1],
        "reward": reward,
        "success": succeeded_by(reward),
        "info": {key: episode[key] for key in KEPT if episode.get(key)},
    }


def _dataset(episode: dict[str, Any]) -> str:
    """Task numbers are per data set, which is named by its file."""
    return PurePosixPath(text(episode.get("dataset"))).stem


def _of_lists(history: dict[str, Any]) -> list[tuple[dict[str, Json], Json]]:
    """Each step with the observation after it. Lists shorter than the actions leave the last steps without values."""
    actions = required_list(history, "actions")
    lists = (optional_list(history, key) for key in ("thoughts", "rewards", "valid_action", "observations"))
    thoughts, rewards, valid, observations = (chain(values, [None] * len(actions)) for values in lists)
    return [
        ({"action": action, "thought": thought, "reward": reward, "info": {} if ok is None else {"valid": ok}}, after)
        for action, thought, reward, ok, after in zip(actions, thoughts, rewards, valid, observations, strict=False)
    ]


def _of_pairs(episode: dict[str, Any]) -> list[tuple[dict[str, Json], Json]]:
    pairs = map(mapping, required_list(episode, "trajectory"))
    return [({"action": pair.get("action")}, pair.get("observation")) for pair in pairs]


FORMAT = Format(
    name="intercode",
    title="InterCode results",
    shape="an object of episodes, each with `query` and `turn_history`",
    keys=(
        "*.query *.turn_history.actions",
        "*.query *.trajectory",
        "logs.*.query logs.*.turn_history.actions",
        "logs.*.query logs.*.trajectory",
    ),
    accepts=_accepts,
    read=_read,
)
