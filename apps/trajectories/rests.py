"""What rests on a trajectory, so that it can't be changed or removed: whatever an app keeps that refers to it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db.models import ForeignObjectRel, Model

from apps.trajectories.models import Original, Step, Trajectory

OWN: set[type[Model]] = {Step, Original}


def rests_on(trajectory_id: UUID, *, besides: Collection[type[Model]] = ()) -> str:
    """What refers to a trajectory, as "an item", beside its own steps; "" where nothing does.

    Foreign keys alone say it: apps that come later in the loop need not be known here.
    """
    for relation in Trajectory._meta.get_fields(include_hidden=True):
        if not isinstance(relation, ForeignObjectRel) or relation.related_model in OWN.union(besides):
            continue
        model: Any = relation.related_model
        if model._base_manager.filter(**{relation.field.name: trajectory_id}).exists():
            name = str(model._meta.verbose_name)
            return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
    return ""
