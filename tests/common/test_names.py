"""Names without any visible character are refused by every form and over REST."""

from collections.abc import Iterator
from importlib import import_module

import pytest
from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from rest_framework import serializers

from apps.accounts.models import Role
from apps.common.api import RequestSerializer
from apps.common.names import NameField, refuse_invisible
from tests import factories
from tests.accounts.clients import as_

INVISIBLE = ("\u200b", "\u3164", "\u2060\u00ad", "\u202e", "\u0301")
OTHERS = {"ColumnSerializer", "EventSerializer"}
"""Serializers whose names aren't those of things here: of columns in a file, and of events in an agent's program."""


def below(cls: type) -> Iterator[type]:
    import_module(settings.ROOT_URLCONF)
    for subclass in cls.__subclasses__():
        yield subclass
        yield from below(subclass)


def test_every_form_asks_for_a_name_that_can_be_seen() -> None:
    ours = {
        form for form in below(forms.Form) if form.__module__.startswith("apps.") and "gallery" not in form.__module__
    }
    named = {form: form.base_fields["name"] for form in ours if "name" in form.base_fields}
    assert len(named) > 10
    assert [form for form, field in named.items() if not isinstance(field, NameField)] == []


def test_so_does_rest() -> None:
    """Serializers made from forms, which belong to no module of ours, are checked by those."""
    named = {}
    for cls in below(RequestSerializer):
        field = cls().fields.get("name") if cls.__module__.startswith("apps.") else None
        if isinstance(field, serializers.CharField) and not field.read_only and cls.__name__ not in OTHERS:
            named[cls] = field
    assert len(named) > 5
    assert [cls for cls, field in named.items() if refuse_invisible not in field.validators] == []


@pytest.mark.parametrize("name", INVISIBLE)
def test_a_name_has_something_to_see(name: str) -> None:
    with pytest.raises(ValidationError, match="visible"):
        refuse_invisible(name)
    for seen in ("a", "日", "é", f"a{name}"):
        refuse_invisible(seen)


@pytest.mark.django_db
def test_a_page_says_what_is_missing() -> None:
    member = factories.member(Role.RESEARCHER)
    answer = as_(member).post("/api/v1/datasets", {"name": "\u200b"}, content_type="application/json")
    assert (answer.status_code, "visible characters" in answer.content.decode()) == (400, True)
