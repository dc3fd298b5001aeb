"""The people that rows refer to. An archive has their names and e-mail addresses, but no passwords or permissions.

On import, members of the workspace are recognized by their address. Everybody else gets a placeholder user with their name and no way to sign
in, so that judgments keep their authors. Other accounts of the installation are never looked up: an archive mustn't reveal who has one, or
attribute judgments to them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from apps.accounts.models import Membership, Role, User, Workspace
from apps.transfer.refusals import BadArchive

MEMBER = "people.jsonl"
MOVED_FROM = "moved_from"
"""The preference in which a placeholder user keeps the person's address, so that later exports have it."""
MAX_PEOPLE = 20_000


class Writer:
    """Collects the people that rows refer to while they're written.

    Each has an address of their own. Whoever was moved here, and the account that has their address by now, stay two people, as their rows may concern
    the same item: the second one is written with a placeholder's address.
    """

    def __init__(self, workspace: Workspace) -> None:
        memberships = Membership.objects.filter(workspace=workspace).select_related("user").order_by("pk")
        self._roles = {membership.user_id: Role(membership.role).name.lower() for membership in memberships}
        self._people: dict[int, dict[str, Any]] = {}
        self._taken: set[str] = set()
        for membership in memberships:
            self._add(membership.user)

    def addresses(self, ids: Iterable[int]) -> dict[int, str]:
        """E-mail addresses by user id."""
        user_ids = set(ids)
        for user in User.objects.filter(pk__in=user_ids - self._people.keys()).order_by("pk"):
            self._add(user)
        return {pk: self._people[pk]["email"] for pk in user_ids}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Everybody who was referred to."""
        for pk, person in sorted(self._people.items()):
            yield {**person, "role": self._roles.get(pk)}

    def _add(self, user: User) -> None:
        email = user.preferences.get(MOVED_FROM) or user.email
        if email.lower() in self._taken:
            email = _placeholder(f"{user.pk} {email}")
        self._taken.add(email.lower())
        self._people[user.pk] = {"email": email, "name": user.name}


def _placeholder(seed: str) -> str:
    """An address that nobody has."""
    return f"{hashlib.sha256(seed.encode()).hexdigest()[:40]}@moved.invalid"


class Reader:
    """The users of an import, by address."""

    def __init__(self, workspace: Workspace) -> None:
        members = Membership.objects.filter(workspace=workspace).select_related("user")
        self._members = {membership.user.email.lower(): membership.user for membership in members}
        self._workspace = workspace
        self._ids: dict[str, int] = {}
        self.strangers: list[dict[str, Any]] = []
        """Name, e-mail address, and role of people who were members there and aren't here."""

    def add(self, row: Any, location: str) -> None:
        """Add a person from a line of the archive. Raises BadArchive."""
        expected = '{"email": "…", "name": "…", "role": null, annotator, reviewer, researcher or owner}'
        if type(row) is not dict or set(row) != {"email", "name", "role"}:
            raise BadArchive(location, "It has other fields.", expected)
        email, name, role = row["email"], row["name"], row["role"]
        if not isinstance(email, str) or not isinstance(name, str) or len(email) > 254 or len(name) > 100:
            raise BadArchive(location, "The address or the name isn't text, or is too long.", expected)
        if role is not None and role not in {role_choice.name.lower() for role_choice in Role}:
            raise BadArchive(location, "There is no such role.", expected)
        try:
            validate_email(email)
        except ValidationError:
            raise BadArchive(location, "The address isn't valid.", expected) from None
        if email in self._ids or len(self._ids) >= MAX_PEOPLE:
            raise BadArchive(
                location, "The person is named twice, or there are too many.", f"at most {MAX_PEOPLE:,} people"
            )
        user = self._members.get(email.lower()) or self._placeholder_user(email, name)
        self._ids[email] = user.pk
        if role is not None and email.lower() not in self._members:
            self.strangers.append({"email": email, "name": name, "role": role})

    def id_of(self, email: str) -> int | None:
        """The id of the user with this address; None if the archive has nobody with it."""
        return self._ids.get(email)

    def _placeholder_user(self, email: str, name: str) -> User:
        address = _placeholder(f"{self._workspace.pk} {email}")
        # An earlier import may have made it, whose rows were deleted since.
        if earlier := User.objects.filter(email=address, is_active=False).first():
            return earlier
        user = User(email=address, name=name, is_active=False, preferences={MOVED_FROM: email})
        user.set_unusable_password()
        user.save()
        return user
