"""What was said of single steps of a run: labels, better actions, marks. The page of a run shows them where they belong."""

from collections.abc import Iterable

from apps.annotation.kinds import KINDS
from apps.annotation.kinds.kind import StepRemark
from apps.annotation.models import Judgement


def remarks_in(judgements: Iterable[Judgement]) -> list[StepRemark]:
    """The remarks of these judgments, in the order of their steps; as many queries whatever their number."""
    said = list(judgements)
    found: list[StepRemark] = []
    for kind in KINDS.values():
        if mine := {each.pk: each for each in said if isinstance(each, kind.model)}:
            found += kind.remarks(mine)
    return sorted(found)
