"""The built-in environments, as people choose from them. The worlds themselves live in the trainer; a test holds these to them."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class EnvironmentFacts:
    """The levels of its tasks, and the scripts that can act in it."""

    levels: tuple[str, ...]
    scripts: tuple[str, ...]


WORKERS = ("expert", "hasty", "careless", "demonstrator")
ENVIRONMENTS: Mapping[str, EnvironmentFacts] = {
    "office": EnvironmentFacts(levels=("L1", "L2", "L3", "L4", "L5"), scripts=WORKERS),
    "search": EnvironmentFacts(levels=("L1", "L2", "L3"), scripts=WORKERS),
    "code": EnvironmentFacts(levels=("L1", "L2", "L3"), scripts=WORKERS),
    "qa": EnvironmentFacts(levels=("L1", "L2", "L3"), scripts=WORKERS),
}
SCRIPTS: tuple[str, ...] = tuple(dict.fromkeys(script for facts in ENVIRONMENTS.values() for script in facts.scripts))
LEVELS: tuple[str, ...] = tuple(sorted({level for facts in ENVIRONMENTS.values() for level in facts.levels}))
