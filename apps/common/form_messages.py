"""Validation messages of forms and the API: what was given, what was expected, what to do.

The default messages of Django and DRF are replaced globally: a base class could be forgotten in a
form. Fields can still override them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core import validators
from rest_framework import serializers

CHOOSE, CHOOSE_SOME = "Nothing is chosen. Choose one.", "Nothing is chosen. Choose at least one."
NO_LIST = "One value is given where a list is expected. Give a list."
NO_FILE = "No file is given. Choose one."
NO_WHOLE_NUMBER = "This isn't a whole number. Write digits only, such as 10."
NO_NUMBER = "This isn't a number. Write it like 0.5."
FIELDS: Mapping[type[forms.Field], Mapping[str, str]] = {
    forms.Field: {"required": "This field is required."},
    forms.ChoiceField: {
        "required": CHOOSE,
        "invalid_choice": "“%(value)s” isn't one of the choices. Choose one of them.",
    },
    forms.MultipleChoiceField: {
        "required": CHOOSE_SOME,
        "invalid_choice": "“%(value)s” isn't one of the choices. Choose among them.",
        "invalid_list": NO_LIST,
    },
    forms.ModelChoiceField: {
        "required": CHOOSE,
        "invalid_choice": "“%(value)s” isn't one of the choices, or no longer is. Choose one of them.",
    },
    forms.ModelMultipleChoiceField: {
        "required": CHOOSE_SOME,
        "invalid_choice": "“%(value)s” isn't one of the choices, or no longer is. Choose among them.",
        "invalid_pk_value": "“%(pk)s” isn't one of the choices. Choose among them.",
        "invalid_list": NO_LIST,
    },
    forms.IntegerField: {"invalid": NO_WHOLE_NUMBER},
    forms.FloatField: {"invalid": NO_NUMBER},
    forms.DateTimeField: {"invalid": "This isn't a date with a time. Write it like 2026-01-31 12:00."},
    forms.JSONField: {"invalid": "This isn't valid JSON. Names and texts go in straight double quotes."},
    forms.FileField: {
        "required": NO_FILE,
        "missing": NO_FILE,
        "invalid": NO_FILE,
        "empty": "The file is empty. Choose another one.",
    },
}
VALIDATORS: Mapping[type[validators.BaseValidator], str] = {
    validators.MinValueValidator: "%(show_value)s is too small. Give %(limit_value)s or more.",
    validators.MaxValueValidator: "%(show_value)s is too large. Give %(limit_value)s or less.",
    validators.MinLengthValidator: "Its length is %(show_value)s, and it needs %(limit_value)s characters. Make it longer.",
    validators.MaxLengthValidator: "Its length is %(show_value)s, and %(limit_value)s characters fit. Make it shorter.",
}
EMAIL = "This isn't an e-mail address. Write it like ada@example.org."
NUMBERS = {
    "min_value": "This is too small. Give {min_value} or more.",
    "max_value": "This is too large. Give {max_value} or less.",
}
API: Mapping[type[serializers.Field[Any, Any, Any, Any]], Mapping[str, str]] = {
    serializers.Field: {
        "required": "This field is required.",
        "null": "Null isn't allowed here. Give a value.",
    },
    serializers.CharField: {
        "invalid": "This isn't text. Give a string.",
        "blank": "The text is empty. Give some.",
        "max_length": "This is too long. Give {max_length} characters or fewer.",
    },
    serializers.IntegerField: {"invalid": NO_WHOLE_NUMBER, **NUMBERS},
    serializers.FloatField: {"invalid": NO_NUMBER, **NUMBERS},
    serializers.BooleanField: {"invalid": "This is neither true nor false. Give one of them."},
    serializers.UUIDField: {"invalid": "“{value}” isn't an id. Use one from the API's lists."},
    serializers.ChoiceField: {"invalid_choice": "“{input}” isn't one of the choices. The schema lists them."},
    serializers.ListField: {"not_a_list": NO_LIST},
}


def install_messages() -> None:
    """Replace the frameworks' default messages."""
    for field, messages in FIELDS.items():
        field.default_error_messages = {**field.default_error_messages, **messages}
    for validator, sentence in VALIDATORS.items():
        validator.message = sentence
    validators.validate_email.message = EMAIL
    for api_field, messages in API.items():
        api_field.default_error_messages = {**api_field.default_error_messages, **messages}
