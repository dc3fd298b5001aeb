"""What was said to one annotator about their judgements: decisions on what they judged, and remarks. Reads only."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.annotation import wording
from apps.annotation.models import JUDGEMENTS, Adjudication, Annotator, Item, Preference, Queue, Remark

SHOWN = 50


@dataclass
class Feedback:
    """One item: what the annotator said, what was decided, and what was said since."""

    item: Item
    judgement: Any
    decision: Adjudication | None = None
    remarks: list[Remark] = field(default_factory=list)

    @property
    def said(self) -> str:
        """The annotator's judgement in their own terms: of a pair, by the sides that they saw."""
        if isinstance(self.judgement, Preference):
            a_was_left = self.judgement.a_is_shown_left
            return wording.by_side(self.judgement.strength, self.judgement.both_bad, a_was_left=a_was_left)
        return wording.said(self.judgement)

    @property
    def decided(self) -> str:
        """The decision in the same terms."""
        if self.decision is None:
            return ""
        if self.decision.strength is None:
            return "your judgement stands" if self.agrees else "another judgement stands"
        a_was_left = self.judgement.a_is_shown_left
        return wording.by_side(self.decision.strength, self.decision.both_bad, a_was_left=a_was_left)

    @property
    def agrees(self) -> bool | None:
        """Whether the decision is what the annotator said; None while there is none."""
        if self.decision is None:
            return None
        if self.decision.strength is None:
            return bool(self.decision.upheld == self.judgement.pk)
        return _sign(self.decision.strength) == _sign(self.judgement.strength)


def feedback_for(queue: Queue, annotator: Annotator) -> list[Feedback]:
    """The newest decisions and remarks about what this annotator judged here; what they have not heard about is left out."""
    model: Any = JUDGEMENTS[Queue.Kind(queue.kind)].objects
    mine = model.standing().filter(queue=queue, annotator=annotator)
    decisions = Adjudication.objects.standing().filter(queue=queue, item__in=mine.values("item"))
    decided = {decision.item_id: decision for decision in decisions.order_by("-pk")[:SHOWN]}
    remarks: dict[int, list[Remark]] = defaultdict(list)
    said = Remark.objects.filter(queue=queue, annotator=annotator).select_related("by").order_by("-pk")[:SHOWN]
    for remark in reversed(said):
        remarks[remark.item_id].append(remark)
    judgements = mine.filter(item__in={*decided, *remarks}).select_related("item__task")
    light = judgements.defer("item__task__initial_state", "item__task__success_check")
    found = [
        Feedback(judgement.item, judgement, decided.get(judgement.item_id), remarks[judgement.item_id])
        for judgement in light
    ]
    return sorted(found, key=_latest, reverse=True)


def _latest(feedback: Feedback) -> str:
    ids: Sequence[Any] = [
        *(remark.pk for remark in feedback.remarks),
        *([feedback.decision.pk] if feedback.decision else []),
    ]
    return max(str(each) for each in ids)  # ids grow with time


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)
