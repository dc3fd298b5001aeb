"""Scripted searchers of different quality. They know which relations the question names, but take every fact from the pages they read."""

import random
from dataclasses import dataclass
from functools import partial
from typing import Any

from contract.trajectory import Task
from trainer.environments.scripts import Call, Script, ScriptFactory
from trainer.environments.search.corpus import read_fact


@dataclass(frozen=True)
class Habits:
    """How a searcher works: each number is the probability of doing the right thing where a shortcut tempts."""

    compares: float = 1.0
    """Opens the hit whose title matches instead of any hit."""
    follows: float = 1.0
    """Follows the relation to the next page instead of answering with what it has just found."""
    copies: float = 1.0
    """Copies a page's id correctly instead of with one wrong digit."""
    thinks: bool = True
    """Writes down its reasons."""


HABITS: dict[str, Habits] = {
    "expert": Habits(),
    "hasty": Habits(compares=0.6, follows=0.7),
    "careless": Habits(compares=0.9, follows=0.95, copies=0.7),
    "demonstrator": Habits(compares=0.75, follows=0.8, thinks=False),
}


def investigate(habits: Habits, task: Task, rng: random.Random) -> Script:
    """Follow the relations page by page, then answer."""

    def does(probability: float) -> bool:
        return rng.random() < probability

    def thought(text: str) -> str:
        return text if habits.thinks else ""

    entity: str = task.success_check["start"]
    for hop, relation in enumerate(task.success_check["relations"]):
        if hop and not does(habits.follows):
            break
        hits: Any = yield Call("search", {"query": entity}, thought(f"What is there on {entity}?"))
        right = next((hit["page"] for hit in hits if hit["title"] == entity), hits[0]["page"])
        page = right if does(habits.compares) else rng.choice(hits)["page"]
        if not does(habits.copies):
            result: Any = yield Call("lookup", {"page": f"{page}0"}, thought(f"I read {page}0."))
            if "error" not in result:
                break
        result = yield Call("lookup", {"page": page}, thought(f"I read {page}."))
        fact = read_fact(relation, result["text"])
        if fact is None:  # the wrong page: answer with its subject instead
            entity = result["title"]
            break
        entity = fact
    yield Call("finish", {"answer": entity}, thought(f"So it is {entity}."))
    return entity


SCRIPTS: dict[str, ScriptFactory] = {name: partial(investigate, habits) for name, habits in HABITS.items()}
