"""Names that people give to things. A name of characters that aren't visible couldn't be told from another, or clicked."""

from __future__ import annotations

import unicodedata
from typing import Final

from django import forms
from django.core.exceptions import ValidationError

BLANK: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols that are drawn as nothing: fillers of Hangul, and Braille without dots."""


def refuse_invisible(name: str) -> None:
    """Raises ValidationError for a name without any visible character. An empty one is allowed where the field is optional."""
    if name and not any(_is_visible(character) for character in name):
        raise ValidationError("Give a name with visible characters.", code="invisible")


def _is_visible(character: str) -> bool:
    """Neither a control or format character, a separator, nor a mark by itself."""
    return unicodedata.category(character)[0] not in "CZM" and character not in BLANK


class NameField(forms.CharField):
    """A name: text that can be seen."""

    default_validators = [refuse_invisible]
