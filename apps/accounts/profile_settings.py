"""Changes of a person's name, password, and preferences."""

from functools import partial
from typing import Any

from django.db import transaction

from apps.accounts.models import User
from apps.common import live

THEMES = ("light", "dark", "system")


@transaction.atomic
def change_name(*, user: User, name: str) -> None:
    """Change a person's name, in every workspace."""
    user.name = name
    user.save(update_fields=["name"])


@transaction.atomic
def change_password(*, user: User, password: str) -> None:
    """Set a new password. It ends the sessions of all other browsers, whose session hash becomes invalid."""
    user.set_password(password)
    user.save(update_fields=["password"])
    transaction.on_commit(partial(end_connections, user))


def end_connections(user: User) -> None:
    """Close the websockets of this person's ended sessions."""
    for membership in user.own_memberships:
        live.recheck_access(membership.pk)


@transaction.atomic
def save_preferences(*, user: User, **changes: Any) -> None:
    """Change some preferences and keep the others; the row lock prevents lost updates."""
    locked = User.objects.select_for_update().get(pk=user.pk)
    locked.preferences = {**locked.preferences, **changes}
    locked.save(update_fields=["preferences"])
    user.preferences = locked.preferences
