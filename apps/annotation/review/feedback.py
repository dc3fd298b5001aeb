"""Feedback to one annotator: decisions on what they judged, and remarks. Reads only."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.annotation.kinds import kind_of
from apps.annotation.models import Adjudication, Annotator, Item, Queue, Remark

SHOWN = 50


@dataclass
class Feedback:
    """One item: the annotator's judgment, the decision, and the remarks since."""

    item: Item
    judgment: Any
    decision: Adjudication | None = None
    remarks: list[Remark] = field(default_factory=list)

    @property
    def judgment_text(self) -> str:
        """The judgment in the annotator's terms: by the sides they saw, for a pair."""
        return kind_of(self.judgment).judgment_text_for_author(self.judgment)

    @property
    def decided(self) -> str:
        """The decision in the same terms."""
        return kind_of(self.judgment).decision_text_for(self.judgment, self.decision) if self.decision else ""

    @property
    def agrees(self) -> bool | None:
        """Whether the decision matches the annotator's judgment; None without a decision."""
        return kind_of(self.judgment).agrees(self.decision, self.judgment) if self.decision else None


def feedback_for(queue: Queue, annotator: Annotator) -> list[Feedback]:
    """The newest decisions and remarks about this annotator's judgments here; items without either are left out."""
    own_judgments = kind_of(queue).valid_judgments.filter(queue=queue, annotator=annotator)
    decisions = Adjudication.objects.valid().filter(queue=queue, item__in=own_judgments.values("item"))
    decided = {decision.item_id: decision for decision in decisions.order_by("-pk")[:SHOWN]}
    remarks: dict[int, list[Remark]] = defaultdict(list)
    newest = Remark.objects.filter(queue=queue, annotator=annotator).select_related("by").order_by("-pk")[:SHOWN]
    for remark in reversed(newest):
        remarks[remark.item_id].append(remark)
    judgments = own_judgments.filter(item__in={*decided, *remarks}).select_related("item__task")
    light = judgments.defer("item__task__initial_state", "item__task__success_check")
    entries = [
        Feedback(judgment.item, judgment, decided.get(judgment.item_id), remarks[judgment.item_id])
        for judgment in light
    ]
    return sorted(entries, key=_latest, reverse=True)


def _latest(feedback: Feedback) -> str:
    ids: Sequence[Any] = [
        *(remark.pk for remark in feedback.remarks),
        *([feedback.decision.pk] if feedback.decision else []),
    ]
    return max(str(pk) for pk in ids)  # ids increase with time
