"""Judgments and known answers in words; what differs by kind, the kind says."""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from apps.annotation.kinds import kind_of
from apps.annotation.models import Adjudication, Item, Judgement
from apps.trajectories.models import Trajectory

TOLD = 6
"""Judgments that one sentence names."""


def said(judgement: Judgement) -> str:
    """What a judgment says, in a few words: “A clearly better”."""
    return kind_of(judgement).words(judgement)


def said_of(judgement: Judgement, run: UUID) -> str:
    """What a judgment says about one trajectory: “clearly worse”, where it was one of two."""
    return kind_of(judgement).words_on(judgement, run)


def other_side(judgement: Judgement, run: UUID) -> Trajectory | None:
    """What `run` was compared with; None where it was judged by itself."""
    item = judgement.item
    return item.b if item.a_id == run else item.a


def known_answer(item: Item) -> str:
    """What is known of a gold or training item."""
    return "nothing" if item.known is None else kind_of(item).known_words(item.known["answer"])


def decision(adjudication: Adjudication) -> str:
    """What a reviewer decided about a pair; of other items the judgment that stands says it."""
    return kind_of(adjudication.item).decided_words(adjudication, (), a_is_left=None)


def in_review(judgement: Judgement, item: Item) -> str:
    """What a judgment says to a reviewer, who sees the trajectories of a pair as left and right."""
    return kind_of(item).words_by_side(judgement, a_is_left=a_is_left_in_review(item))


def decided(adjudication: Adjudication, judgements: Sequence[Judgement]) -> str:
    """What was decided about an item, in the same words."""
    item = adjudication.item
    return kind_of(item).decided_words(adjudication, judgements, a_is_left=a_is_left_in_review(item))


def after_decision(adjudication: Adjudication, judgements: Sequence[Judgement]) -> str:
    """What a reviewer is told once they have decided: what the others had said, by the sides that the reviewer saw."""
    item = adjudication.item
    others = "; ".join(f"{judgement.annotator}: {in_review(judgement, item)}" for judgement in judgements[:TOLD])
    more = f"; and {len(judgements) - TOLD} more" if len(judgements) > TOLD else ""
    return (
        f"You decided: {decided(adjudication, judgements)}. {others}{more}. The people who judged it see your reason."
    )


def a_is_left_in_review(item: Item) -> bool:
    """By chance, and the same whenever it is opened."""
    return bool(item.pk % 2)


def judged_by(judgements: Sequence[Judgement]) -> str:
    """“2 people and 1 rule”."""
    kinds = Counter(judgement.annotator.kind for judgement in judgements)
    names = {"person": ("person", "people"), "model": ("model", "models"), "rule": ("rule", "rules")}
    parts = [f"{kinds[kind]} {one if kinds[kind] == 1 else many}" for kind, (one, many) in names.items() if kinds[kind]]
    return " and ".join(parts)
