"""No secret is in an archive, whatever field holds it."""

import io
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import models, transaction
from django.db.utils import DatabaseError

from apps.accounts.models import Membership, User
from apps.transfer.tables import EXCEPTIONS, LISTED, TABLES
from tests.transfer.archives import exported
from tests.transfer.full_workspace import fill
from tests.transfer.test_tables import suspects

pytestmark = pytest.mark.django_db


def _secret_fields() -> Iterator[tuple[type[models.Model], models.Field]]:
    """All fields that are left out, fields that look like secrets in models that aren't exported, and people's passwords."""
    for table in (*TABLES, *LISTED):
        for name in table.left_out:
            yield table.model, table.model._meta.get_field(name)
    for model in EXCEPTIONS:
        for field in suspects(model):
            yield model, field
    yield User, User._meta.get_field("password")


def _plant(model: type[models.Model], field: models.Field) -> str | None:
    """Put a marker into this field of one row; None if it can't hold text, or there is no row."""
    mark = f"planted{model.__name__}{field.name}".replace("_", "").lower()
    if field.is_relation:
        return None
    if isinstance(field, models.JSONField):
        value: Any = {"text": mark}
    elif isinstance(field, models.BinaryField):
        value = mark.encode()
    elif isinstance(field, models.CharField | models.TextField | models.FileField):
        mark = mark[: field.max_length]
        value = mark
    else:
        return None
    for row in model._base_manager.order_by("-pk")[:20]:
        try:
            with transaction.atomic():
                model._base_manager.filter(pk=row.pk).update(**{field.name: value})
        except DatabaseError:  # violates a constraint
            continue
        return mark
    return None


def test_no_secret_is_in_the_archive(owner: Membership, things: dict[str, Any]):
    fill(owner, things)
    marks = {f"{model.__name__}.{field.name}": _plant(model, field) for model, field in _secret_fields()}
    planted = {name: mark for name, mark in marks.items() if mark}
    for name in (
        *("User.password", "ApiToken.digest", "FeedbackKey.digest", "Invitation.digest", "Session.key_digest"),
        *("Session.training_address", "EpisodeBatch.address", "Endpoint.key_variable", "Destination.address"),
        *("Destination.salt", "Destination.earlier_salt", "Assignment.draft"),
    ):
        assert name in planted, name
    with zipfile.ZipFile(io.BytesIO(exported(owner))) as archive:
        for member in archive.namelist():
            body = archive.read(member)
            leaked = [name for name, mark in planted.items() if mark.encode() in body]
            assert not leaked, (member, leaked)


def test_the_manifest_says_what_is_not_in_it(owner: Membership, things: dict[str, Any]):
    with zipfile.ZipFile(io.BytesIO(exported(owner))) as archive:
        manifest = archive.read("manifest.json").decode()
    for words in ("webhooks.destination.salt", "policies.endpoint.key_variable", "accounts.apitoken", "passwords"):
        assert words in manifest
