"""What was said of single steps of a run: labels, better actions, marks. Reads; the page of a run shows them where they belong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from apps.annotation.models import Correction, Inspection, Judgement, Mark, Rating, StepLabel

MAX_REMARKS = 200
WORDS = {1: "good", 0: "neutral", -1: "bad"}
TONES = {1: "good", 0: "plain", -1: "bad"}


@dataclass(frozen=True, order=True)
class Remark:
    """One thing said of one step."""

    index: int
    words: str
    tone: str
    """good, bad, attention or plain."""
    note: str
    annotator: str

    @property
    def number(self) -> int:
        return self.index + 1


def remarks_in(judgements: Iterable[Judgement]) -> list[Remark]:
    """The remarks of these judgements, in the order of their steps; three queries whatever their number."""
    by_id = {judgement.pk: judgement for judgement in judgements}
    inspections = [pk for pk, judgement in by_id.items() if isinstance(judgement, Inspection)]
    ratings = [pk for pk, judgement in by_id.items() if isinstance(judgement, Rating)]
    found: list[Remark] = []
    # Labels that only follow from a first error say nothing of their own.
    labels = StepLabel.objects.filter(inspection__in=inspections, is_filled=False).defer("spans")
    for label in labels[:MAX_REMARKS]:
        said = by_id[label.inspection_id]
        is_first = isinstance(said, Inspection) and said.first_error == label.index
        words = "first error" if is_first else WORDS[label.value]
        found.append(Remark(label.index, words, TONES[label.value], label.critique, said.annotator.name))
    for action in Correction.objects.filter(inspection__in=inspections).defer("message")[:MAX_REMARKS]:
        name = by_id[action.inspection_id].annotator.name
        found.append(Remark(action.index, "better action", "attention", action.get_origin_display(), name))
    for mark in Mark.objects.filter(rating__in=ratings)[:MAX_REMARKS]:
        tone = "good" if mark.kind == Mark.Kind.SUBGOAL else "bad"
        name = by_id[mark.rating_id].annotator.name
        found.append(Remark(mark.index, mark.get_kind_display().lower(), tone, mark.note, name))
    return sorted(found)
