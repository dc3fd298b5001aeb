"""Judgments and known answers as text; each kind provides its own wording."""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from apps.annotation.kinds import kind_of
from apps.annotation.models import Adjudication, Item, Judgement
from apps.trajectories.models import Trajectory

NAMED = 6
"""Maximum number of judgments named in one sentence."""


def judgment_text(judgement: Judgement) -> str:
    """A judgment as short text: “A clearly better”."""
    return kind_of(judgement).words(judgement)


def judgment_text_on(judgement: Judgement, trajectory: UUID) -> str:
    """What a judgment says about one trajectory, such as “clearly worse” if it was one of a pair."""
    return kind_of(judgement).words_on(judgement, trajectory)


def other_side(judgement: Judgement, trajectory: UUID) -> Trajectory | None:
    """The trajectory that `trajectory` was compared with; None if it was judged individually."""
    item = judgement.item
    return item.b if item.a_id == trajectory else item.a


def known_answer(item: Item) -> str:
    """The known answer of a gold or onboarding item."""
    return "nothing" if item.known is None else kind_of(item).known_words(item.known["answer"])


def decision(adjudication: Adjudication) -> str:
    """A reviewer's decision about a pair; for other kinds it doesn't say which judgment was upheld."""
    return kind_of(adjudication.item).decided_words(adjudication, (), a_is_left=None)


def in_review(judgement: Judgement, item: Item) -> str:
    """A judgment as text for a reviewer, who sees the trajectories of a pair as left and right."""
    return kind_of(item).words_by_side(judgement, a_is_left=a_is_left_in_review(item))


def decided(adjudication: Adjudication, judgements: Sequence[Judgement]) -> str:
    """A decision as text, in the same terms."""
    item = adjudication.item
    return kind_of(item).decided_words(adjudication, judgements, a_is_left=a_is_left_in_review(item))


def after_decision(adjudication: Adjudication, judgements: Sequence[Judgement]) -> str:
    """The text a reviewer sees after deciding: the others' judgments, by the sides that the reviewer saw."""
    item = adjudication.item
    others = "; ".join(f"{judgement.annotator}: {in_review(judgement, item)}" for judgement in judgements[:NAMED])
    more = f"; and {len(judgements) - NAMED} more" if len(judgements) > NAMED else ""
    return (
        f"You decided: {decided(adjudication, judgements)}. {others}{more}. The people who judged it see your reason."
    )


def a_is_left_in_review(item: Item) -> bool:
    """Random, but the same every time it's opened."""
    return bool(item.pk % 2)


def judged_by(judgements: Sequence[Judgement]) -> str:
    """“2 people and 1 rule”."""
    kinds = Counter(judgement.annotator.kind for judgement in judgements)
    names = {"person": ("person", "people"), "model": ("model", "models"), "rule": ("rule", "rules")}
    parts = [f"{kinds[kind]} {one if kinds[kind] == 1 else many}" for kind, (one, many) in names.items() if kinds[kind]]
    return " and ".join(parts)
