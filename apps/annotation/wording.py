"""Judgements and known answers in words."""

from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from apps.annotation.desk import checking
from apps.annotation.models import Adjudication, Inspection, Item, Judgement, Preference, Queue, Rating

GRADES = {1: "slightly", 2: "clearly", 3: "much"}


def verdict(preference: Preference) -> str:
    """“A clearly better”."""
    if preference.both_bad:
        return "both bad"
    if preference.strength == 0:
        return "tie"
    return f"{'A' if preference.strength > 0 else 'B'} {GRADES[abs(preference.strength)]} better"


def said_of(judgement: Preference | Inspection | Rating, run: UUID) -> str:
    """What a judgement says about one run: “clearly worse”, where it was one of two."""
    return verdict_on(judgement, run) if isinstance(judgement, Preference) else said(judgement)


def verdict_on(preference: Preference, run: UUID) -> str:
    """What was said about one of the two runs: “clearly worse”."""
    if preference.both_bad or preference.strength == 0:
        return "both bad" if preference.both_bad else "tie"
    better = (preference.strength > 0) == (preference.item.a_id == run)
    return f"{GRADES[abs(preference.strength)]} {'better' if better else 'worse'}"


def said(judgement: Preference | Inspection | Rating) -> str:
    """What a judgement says, in a few words, whatever its kind."""
    if isinstance(judgement, Preference):
        return verdict(judgement)
    if isinstance(judgement, Inspection):
        where = "" if judgement.first_error is None else f", step {judgement.first_error + 1}"
        return f"{judgement.get_ending_display().lower()}{where}"
    thumb = {1: ["thumb up"], -1: ["thumb down"]}.get(judgement.thumb or 0, [])
    return ", ".join([*thumb, *(f"{key} {answer}" for key, answer in judgement.answers.items())]) or "nothing"


def known_answer(item: Item) -> str:
    """What is known of a gold or training item."""
    if item.known is None:
        return "nothing"
    if item.kind == Queue.Kind.PAIRWISE:
        return {1: "run A is better", 0: "neither is better", -1: "run B is better"}[item.known["answer"]]
    return checking.words(item.queue, item.known["answer"])


def decision(adjudication: Adjudication) -> str:
    """What a reviewer decided about a pair; of other items the judgement that stands says it."""
    if adjudication.strength is None:
        return "one judgement stands"
    return verdict(Preference(strength=adjudication.strength, both_bad=adjudication.both_bad))


def in_review(judgement: Any, item: Item) -> str:
    """What a judgement says to a reviewer, who sees the runs of a pair as left and right."""
    if isinstance(judgement, Preference):
        return by_side(judgement.strength, judgement.both_bad, a_was_left=a_is_left_in_review(item))
    return said(judgement)


def decided(adjudication: Adjudication, judgements: Sequence[Any]) -> str:
    """What was decided about an item, in the same words."""
    if adjudication.strength is not None:
        left = a_is_left_in_review(adjudication.item)
        return by_side(adjudication.strength, adjudication.both_bad, a_was_left=left)
    return next((said(each) for each in judgements if each.pk == adjudication.upheld), "one judgement stands")


def a_is_left_in_review(item: Item) -> bool:
    """By chance, and the same whenever it is opened."""
    return bool(item.pk % 2)


def judged_by(judgements: Sequence[Judgement]) -> str:
    """“2 people and 1 rule”."""
    kinds = Counter(judgement.annotator.kind for judgement in judgements)
    names = {"person": ("person", "people"), "model": ("model", "models"), "rule": ("rule", "rules")}
    parts = [f"{kinds[kind]} {one if kinds[kind] == 1 else many}" for kind, (one, many) in names.items() if kinds[kind]]
    return " and ".join(parts)


def by_side(strength: int, both_bad: bool, *, a_was_left: bool) -> str:
    """A grade for who saw sides and no names: “left clearly better”."""
    if both_bad or strength == 0:
        return "both bad" if both_bad else "tie"
    return f"{'left' if (strength > 0) == a_was_left else 'right'} {GRADES[abs(strength)]} better"
