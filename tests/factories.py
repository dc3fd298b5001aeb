"""Rows for tests: each function makes one valid thing and whatever it needs."""

from itertools import count
from typing import Any

from apps.accounts.models import Membership, Role, User, Workspace
from apps.policies.models import Policy

_number = count(1)


def workspace(**fields: Any) -> Workspace:
    n = next(_number)
    return Workspace.objects.create(**{"name": f"Workspace {n}", "slug": f"workspace-{n}", **fields})


def user(**fields: Any) -> User:
    n = next(_number)
    return User.objects.create_user(
        **{"email": f"person{n}@example.org", "name": f"Person {n}", "password": "pass-phrase-1", **fields}
    )


def member(role: Role = Role.RESEARCHER, *, of: Workspace | None = None, **fields: Any) -> Membership:
    """A new person with `role` in workspace `of` (a new one by default)."""
    return Membership.objects.create(user=user(**fields), workspace=of or workspace(), role=role)


def policy(*, of: Workspace | None = None, **fields: Any) -> Policy:
    n = next(_number)
    return Policy.objects.create(
        **{
            "workspace": of or workspace(),
            "name": f"policy-{n}",
            "kind": Policy.Kind.SCRIPTED,
            "location": "expert",
            **fields,
        }
    )
