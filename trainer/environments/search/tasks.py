"""Draws questions whose answer is one, two, or three pages away.

A question follows relations from a company, a person, or a town: "Which river flows through the town where the founder of X was born?"
is founder, birthplace, river. Levels: L1 takes one page, L2 two, L3 three. Training and held-out questions are about different
countries that share no names.
"""

import random
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from contract.trajectory import Task
from trainer.environments.protocol import Split
from trainer.environments.search.corpus import Corpus, Page, corpus_named

LEVELS = ("L1", "L2", "L3")
TASKS_A_CORPUS = 20


class Relation(NamedTuple):
    """A fact of a page: the question that asks for it, and the phrase that refers to it within a longer question."""

    question: str
    phrase: str
    """Empty if the fact has no page, so that the walk ends there."""


RELATIONS: dict[str, dict[str, Relation]] = {
    "company": {
        "founder": Relation("Who founded {}?", "the founder of {}"),
        "home": Relation("In which town is {} based?", "the town where {} is based"),
        "founded": Relation("In which year was {} founded?", ""),
        "product": Relation("What is {} known for?", ""),
    },
    "person": {
        "birthplace": Relation("In which town was {} born?", "the town where {} was born"),
        "born": Relation("In which year was {} born?", ""),
        "profession": Relation("What is the profession of {}?", ""),
    },
    "town": {
        "mayor": Relation("Who is the mayor of {}?", "the mayor of {}"),
        "river": Relation("On which river lies {}?", ""),
        "region": Relation("To which region belongs {}?", ""),
    },
}


def search_tasks(*, levels: tuple[str, ...], split: Split, seed: int) -> Iterator[Task]:
    """An endless stream of tasks, cycling through the levels; the n-th task of a level, split, and seed is always the same."""
    for number in count():
        for level in levels:
            yield search_task(level, split, seed, number)


def search_task(level: str, split: Split, seed: int, number: int) -> Task:
    rng = random.Random(f"search {level} {split} {seed} {number}")
    name = f"{split}/{seed}/{number // TASKS_A_CORPUS}"
    corpus = corpus_named(name)
    while (walk := drawn_walk(corpus, hops=LEVELS.index(level) + 1, rng=rng)) is None:
        pass
    page = walk.pages[0]
    return Task(
        key=f"search/{level}/{split}/{number}" + (f"@{seed}" if seed else ""),
        instruction=walk.question,
        environment="search",
        initial_state={"corpus": name},
        success_check={
            "answer": walk.answer,
            "pages": [page.id for page in walk.pages],
            "start": page.title,
            "relations": walk.relations,
        },
        category=" > ".join(walk.relations),
        difficulty=level,
        held_out=split == "held_out",
    )


class Walk(NamedTuple):
    """A path of relations from a starting page to the answer."""

    pages: list[Page]
    relations: list[str]
    question: str
    answer: str


def drawn_walk(corpus: Corpus, *, hops: int, rng: random.Random) -> Walk | None:
    """A walk over `hops` different pages; None if this draw reaches a dead end."""
    page = corpus.pages[rng.choice(corpus.order)]
    phrase, pages, names = page.title, [page], []
    for hop in range(hops):
        last = hop == hops - 1
        relations = RELATIONS[page.kind]
        name = rng.choice([name for name, relation in relations.items() if last or relation.phrase])
        names.append(name)
        if last:
            return Walk(pages, names, relations[name].question.format(phrase), page.facts[name])
        phrase = relations[name].phrase.format(phrase)
        page = corpus.by_title[page.facts[name]]
        if page in pages:
            return None
        pages.append(page)
    return None
