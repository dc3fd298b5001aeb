"""Rows for tests: each function makes one valid thing and whatever it needs."""

from itertools import count
from typing import Any

from django.utils.timezone import now

from apps.accounts.models import Membership, Role, User, Workspace
from apps.datasets.models import Dataset, Version
from apps.policies.models import Policy
from apps.training.models import Run

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


def dataset_version(*, of: Workspace | None = None, **fields: Any) -> Version:
    """A frozen version without files: 40 training and 10 validation rows, as far as the database knows."""
    n = next(_number)
    home = of or workspace()
    return Version.objects.create(
        **{
            "workspace": home,
            "dataset": Dataset.objects.create(workspace=home, name=f"dataset-{n}"),
            "number": 1,
            "state": Version.State.FROZEN,
            "frozen_at": now(),
            "content_hash": "0" * 64,
            "row_counts": {"train": 40, "validation": 10, "test": 0},
            **fields,
        }
    )


def run(*, of: Workspace | None = None, **fields: Any) -> Run:
    n = next(_number)
    home = of or workspace()
    return Run.objects.create(
        **{
            "workspace": home,
            "name": f"run-{n}",
            "algorithm": Run.Algorithm.DPO,
            "version": fields.pop("version", None) or dataset_version(of=home),
            "base": fields.pop("base", None) or policy(of=home, kind=Policy.Kind.MODEL, location="example/base"),
            **fields,
        }
    )
