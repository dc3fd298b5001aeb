"""What refers to a trajectory and keeps it from being changed or deleted: any app's objects."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any
from uuid import UUID

from django.db.models import ForeignObjectRel, Model

from apps.trajectories.models import Original, Step, Trajectory

OWN: set[type[Model]] = {Step, Original}

_lookups: list[Callable[[UUID], str]] = []


def register(lookup: Callable[[UUID], str]) -> None:
    """Adds a lookup of references that aren't foreign keys: given a trajectory, it answers as `referrer_of`."""
    _lookups.append(lookup)


def referrer_of(trajectory_id: UUID, *, besides: Collection[type[Model]] = ()) -> str:
    """What refers to a trajectory besides its own steps, as "an item"; "" if nothing does.

    Found through foreign keys and registered lookups, so that apps later in the loop don't have to be known here.
    """
    for relation in Trajectory._meta.get_fields(include_hidden=True):
        if not isinstance(relation, ForeignObjectRel) or relation.related_model in OWN.union(besides):
            continue
        model: Any = relation.related_model
        if model._base_manager.filter(**{relation.field.name: trajectory_id}).exists():
            name = str(model._meta.verbose_name)
            return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
    return next(filter(None, (lookup(trajectory_id) for lookup in _lookups)), "")
