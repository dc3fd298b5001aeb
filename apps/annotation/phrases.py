"""Judgments and known answers as text; each kind provides its own wording."""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from apps.annotation.kinds import kind_of
from apps.annotation.models import Adjudication, Item, Judgment
from apps.trajectories.models import Trajectory

NAMED = 6
"""Maximum number of judgments named in one sentence."""


def judgment_text(judgment: Judgment) -> str:
    """A judgment as short text: “A clearly better”."""
    return kind_of(judgment).judgment_text(judgment)


def judgment_text_on(judgment: Judgment, trajectory: UUID) -> str:
    """What a judgment says about one trajectory, such as “clearly worse” if it was one of a pair."""
    return kind_of(judgment).judgment_text_on(judgment, trajectory)


def other_side(judgment: Judgment, trajectory: UUID) -> Trajectory | None:
    """The trajectory that `trajectory` was compared with; None if it was judged individually."""
    item = judgment.item
    return item.b if item.a_id == trajectory else item.a


def known_answer(item: Item) -> str:
    """The known answer of a gold or onboarding item."""
    return "nothing" if item.known is None else kind_of(item).known_answer_text(item.known["answer"])


def decision(adjudication: Adjudication) -> str:
    """A reviewer's decision about a pair; for other kinds it doesn't say which judgment was upheld."""
    return kind_of(adjudication.item).decision_text(adjudication, (), a_is_left=None)


def in_review(judgment: Judgment, item: Item) -> str:
    """A judgment as text for a reviewer, who sees the trajectories of a pair as left and right."""
    return kind_of(item).judgment_text_by_side(judgment, a_is_left=a_is_left_in_review(item))


def rationale_in_review(judgment: Judgment, item: Item) -> str:
    """What was written in a judgment, in the same terms."""
    return kind_of(item).rationale_by_side(judgment, a_is_left=a_is_left_in_review(item))


def decided(adjudication: Adjudication, judgments: Sequence[Judgment]) -> str:
    """A decision as text, in the same terms."""
    item = adjudication.item
    return kind_of(item).decision_text(adjudication, judgments, a_is_left=a_is_left_in_review(item))


def after_decision(adjudication: Adjudication, judgments: Sequence[Judgment]) -> str:
    """The text a reviewer sees after deciding: the others' judgments, by the sides that the reviewer saw."""
    item = adjudication.item
    judgments_text = "; ".join(f"{judgment.annotator}: {in_review(judgment, item)}" for judgment in judgments[:NAMED])
    more = f"; and {len(judgments) - NAMED} more" if len(judgments) > NAMED else ""
    return f"You decided: {decided(adjudication, judgments)}. {judgments_text}{more}. The people who judged it see your reason."


def a_is_left_in_review(item: Item) -> bool:
    """Random, but the same every time it's opened."""
    return bool(item.pk % 2)


def judged_by(judgments: Sequence[Judgment]) -> str:
    """“2 people and 1 rule”."""
    kinds = Counter(judgment.annotator.kind for judgment in judgments)
    names = {"person": ("person", "people"), "model": ("model", "models"), "rule": ("rule", "rules")}
    parts = [f"{kinds[kind]} {one if kinds[kind] == 1 else many}" for kind, (one, many) in names.items() if kinds[kind]]
    return " and ".join(parts)
