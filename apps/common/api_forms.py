"""Derives REST request bodies from the forms of pages, so that fields are declared only once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from django import forms
from rest_framework import serializers

from apps.common.api import RequestSerializer


def request_of(
    form: type[forms.Form],
    name: str,
    *,
    names: Mapping[str, str] = MappingProxyType({}),
    **more: serializers.Field[Any, Any, Any, Any],
) -> type[RequestSerializer]:
    """A serializer with the fields of a form, with their initial values as defaults, and the extra fields `more`.

    `names`: fields with a different name in REST. It only checks types and names; the form, which gets the result, checks the rest.
    """
    fields = {names.get(field, field): _field(asked) for field, asked in form.base_fields.items()}
    return type(name, (RequestSerializer,), {"__doc__": form.__doc__, **fields, **more})


def _field(asked: forms.Field) -> serializers.Field[Any, Any, Any, Any]:
    options: dict[str, Any] = {"help_text": " ".join(str(words) for words in (asked.label, asked.help_text) if words)}
    match asked:
        case forms.BooleanField():
            return serializers.BooleanField(default=bool(asked.initial), **options)
        case forms.JSONField():
            return serializers.ListField(child=serializers.DictField(), default=list, **options)
        case forms.ModelChoiceField():
            return serializers.UUIDField(default=None, allow_null=True, **options)
    options |= {"required": True} if asked.required and asked.initial is None else {"default": asked.initial}
    if not asked.required:
        options["allow_null"] = True
    match asked:
        case forms.ChoiceField():
            return serializers.ChoiceField(_choices(asked), **options)
        case forms.FloatField():
            return serializers.FloatField(**options, **_bounds(asked))
        case forms.IntegerField():
            return serializers.IntegerField(**options, **_bounds(asked))
        case forms.CharField():
            return serializers.CharField(max_length=asked.max_length, allow_blank=not asked.required, **options)
    raise TypeError(f"{type(asked).__name__} has no counterpart over REST yet.")


def _bounds(asked: forms.IntegerField) -> dict[str, Any]:
    return {"min_value": asked.min_value, "max_value": asked.max_value}


def _choices(asked: forms.ChoiceField) -> list[tuple[str, str]]:
    return [(str(value), str(label)) for value, label in asked.choices]  # type: ignore[union-attr,misc]  # ours are flat lists
