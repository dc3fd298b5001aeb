"""The kinds of judgments. Each module registered in `KINDS` declares one; other code calls the kind and never checks which one it is.

To add a kind: its model, its module, its template, and its name in `Queue.Kind` and here.
"""

from typing import Any

from apps.annotation.kinds.kind import Kind
from apps.annotation.kinds.pairwise import PAIRWISE
from apps.annotation.kinds.rating import RATING
from apps.annotation.kinds.single_trajectory import SingleTrajectoryKind
from apps.annotation.kinds.steps import STEPS
from apps.annotation.models import Item, Judgment, Queue

KINDS: dict[str, Kind[Any, Any, Any]] = {kind.name: kind for kind in (PAIRWISE, STEPS, RATING)}
OF_TRAJECTORIES: dict[str, SingleTrajectoryKind[Any, Any, Any]] = {kind.name: kind for kind in (STEPS, RATING)}
"""The kinds that judge a single trajectory."""
_OF_MODEL = {kind.model: kind for kind in KINDS.values()}


def kind_of(what: Queue | Item | Judgment) -> Kind[Any, Any, Any]:
    """The kind of a queue, of one of its items, or of a judgment there."""
    return _OF_MODEL[type(what)] if isinstance(what, Judgment) else KINDS[what.kind]


__all__ = ["KINDS", "OF_TRAJECTORIES", "PAIRWISE", "RATING", "STEPS", "Kind", "kind_of"]
