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
    about: str,
    *,
    names: Mapping[str, str] = MappingProxyType({}),
    **more: serializers.Field[Any, Any, Any, Any],
) -> type[RequestSerializer]:
    """A serializer with the fields of a form, with their initial values as defaults, and the extra fields `more`.

    `name` and `about`: the name and the description in the schema.     `names`: fields with a different name in REST. It only checks types and names; the form, which gets the result, checks the rest.
    """
    fields = {names.get(field, field): _field(form_field) for field, form_field in form.base_fields.items()}
    return type(name, (RequestSerializer,), {"__doc__": about, **fields, **more})


def _field(form_field: forms.Field) -> serializers.Field[Any, Any, Any, Any]:
    options: dict[str, Any] = {
        "help_text": ". ".join(str(text) for text in (form_field.label, form_field.help_text) if text)
    }
    match form_field:
        case forms.BooleanField():
            return serializers.BooleanField(default=bool(form_field.initial), **options)
        case forms.JSONField():
            return serializers.ListField(child=serializers.DictField(), default=list, **options)
        case forms.ModelChoiceField():
            return serializers.UUIDField(default=None, allow_null=True, **options)
    options |= (
        {"required": True} if form_field.required and form_field.initial is None else {"default": form_field.initial}
    )
    if not form_field.required:
        options["allow_null"] = True
    match form_field:
        case forms.ChoiceField():
            return serializers.ChoiceField(_choices(form_field), **options)
        case forms.FloatField():
            return serializers.FloatField(**options, **_bounds(form_field))
        case forms.IntegerField():
            return serializers.IntegerField(**options, **_bounds(form_field))
        case forms.CharField():
            return serializers.CharField(
                max_length=form_field.max_length, allow_blank=not form_field.required, **options
            )
    raise TypeError(f"{type(form_field).__name__} has no counterpart over REST yet.")


def _bounds(form_field: forms.IntegerField) -> dict[str, Any]:
    return {"min_value": form_field.min_value, "max_value": form_field.max_value}


def _choices(form_field: forms.ChoiceField) -> list[tuple[str, str]]:
    return [(str(value), str(label)) for value, label in form_field.choices]  # type: ignore[union-attr,misc]  # ours are flat lists
