"""A small encyclopedia of an invented country: companies, people, and towns, and their relations.

Every name is composed of syllables, so nothing can be known beforehand: it has to be looked up. Surnames and first words of company
names are shared, so that a search also returns namesakes.
"""

import random
import re
import zlib
from functools import lru_cache
from typing import NamedTuple

from trainer.environments.search.bm25 import Index

HELD_OUT_ONE_IN = 5
STARTS = (
    "Al",
    "Bre",
    "Cor",
    "Da",
    "El",
    "Fen",
    "Gra",
    "Hol",
    "Ir",
    "Jas",
    "Kel",
    "Lun",
    "Mor",
    "Nes",
    "Or",
    "Pel",
    "Quil",
    "Ra",
    "Sto",
    "Tam",
)
ENDS = ("ba", "dor", "fen", "gast", "hil", "kin", "lor", "mund", "nia", "pol", "rin", "sted", "thal", "vik", "wen")
FIRST_NAMES = ("Ana", "Bela", "Carlo", "Dora", "Emil", "Flora", "Gustav", "Hedda", "Ivo", "Jonna", "Karl", "Lea")
TRADES = ("Works", "Mills", "Press", "Foundry", "Brewery", "Yards")
PRODUCTS = ("clocks", "paper", "lamps", "bells", "boats", "pianos", "tiles", "gloves", "maps", "kettles")
PROFESSIONS = ("engineer", "botanist", "weaver", "lawyer", "painter", "physician", "printer", "surveyor")
REGIONS = ("the Northmark", "the Lowlands", "the Salt Coast", "the Vale", "the High Moors")

FACTS = {
    "founder": "It was founded by {}.",
    "founded": "It was founded in the year {}.",
    "home": "Its seat is the town of {}.",
    "product": "It is known for its {}.",
    "birthplace": "The place of birth is {}.",
    "born": "The year of birth is {}.",
    "profession": "By profession a {}.",
    "river": "It lies on the river {}.",
    "region": "It belongs to {}.",
    "mayor": "The mayor is {}.",
}
"""Sentence template of each fact."""
NUMBERS = {"companies": 40, "people": 70, "towns": 25}


class Page(NamedTuple):
    """One page of the encyclopedia."""

    id: str
    title: str
    kind: str
    facts: dict[str, str]

    @property
    def text(self) -> str:
        return f"{self.title} is a {self.kind}. " + " ".join(
            FACTS[fact].format(value) for fact, value in self.facts.items()
        )


class Corpus(NamedTuple):
    """All pages and their index."""

    pages: dict[str, Page]
    by_title: dict[str, Page]
    words: Index
    order: list[str]

    def search(self, query: str, count: int) -> list[Page]:
        return [self.pages[self.order[number]] for number in self.words.best(query, count)]


@lru_cache(maxsize=16)
def corpus_named(name: str) -> Corpus:
    """The corpus of that name, always the same. Names beginning with held_out share no title with the others."""
    rng = random.Random(f"corpus {name}")
    words = Words(rng, held_out=name.startswith("held_out"))
    towns = [words.new() for _ in range(NUMBERS["towns"])]
    surnames = [words.new() for _ in range(NUMBERS["people"] // 3)]
    people = words.pairs(FIRST_NAMES, surnames, NUMBERS["people"])
    firms = [words.new() for _ in range(NUMBERS["companies"] // 2)]
    companies = [f"{first} {trade}" for trade, first in words.pairs_of(TRADES, firms, NUMBERS["companies"])]
    rivers = [words.new() for _ in range(8)]
    described: list[tuple[str, str, dict[str, str]]] = []
    for title in towns:
        facts = {"river": rng.choice(rivers), "region": rng.choice(REGIONS), "mayor": rng.choice(people)}
        described.append((title, "town", facts))
    for title in people:
        facts = {
            "profession": rng.choice(PROFESSIONS),
            "born": str(rng.randint(1820, 1960)),
            "birthplace": rng.choice(towns),
        }
        described.append((title, "person", facts))
    for title in companies:
        facts = {"founder": rng.choice(people), "founded": str(rng.randint(1850, 2005))}
        described.append((title, "company", {**facts, "home": rng.choice(towns), "product": rng.choice(PRODUCTS)}))
    rng.shuffle(described)
    numbers = rng.sample(range(100, 1000), len(described))
    pages = {
        f"p{number}": Page(f"p{number}", *description) for number, description in zip(numbers, described, strict=True)
    }
    return Corpus(
        pages=pages,
        by_title={page.title: page for page in pages.values()},
        words=Index([f"{page.title} {page.text}" for page in pages.values()]),
        order=list(pages),
    )


class Words:
    """Makes up unique names, from either the training or the held-out half of all names."""

    def __init__(self, rng: random.Random, *, held_out: bool) -> None:
        self._rng = rng
        words = [start + middle + end for start in STARTS for middle in ("", "a", "e", "o") for end in ENDS]
        self._left = [word for word in words if is_held_out(word) == held_out]
        rng.shuffle(self._left)

    def new(self) -> str:
        return self._left.pop()

    def pairs_of(self, first: tuple[str, ...], second: list[str], count: int) -> list[tuple[str, str]]:
        """Distinct pairs, in which the words of `second` occur about equally often."""
        pairs: dict[tuple[str, str], None] = {}
        while len(pairs) < count:
            pairs[self._rng.choice(first), second[len(pairs) % len(second)]] = None
        return list(pairs)

    def pairs(self, first: tuple[str, ...], second: list[str], count: int) -> list[str]:
        return [" ".join(pair) for pair in self.pairs_of(first, second, count)]


def is_held_out(word: str) -> bool:
    return zlib.crc32(word.encode()) % HELD_OUT_ONE_IN == 0


def read_fact(fact: str, text: str) -> str | None:
    """A fact's value in a page's text; None if it isn't there."""
    before, after = (re.escape(part) for part in FACTS[fact].split("{}"))
    match = re.search(f"{before}(.+?){after}", text)
    return match[1] if match else None
