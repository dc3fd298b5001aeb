"""Indexed full-text search of tasks: the key and the beginning of the instruction, split at spaces and ASCII punctuation."""

from __future__ import annotations

import re

from django.contrib.postgres.search import SearchVectorField
from django.db.models import Func, TextField, Value
from django.db.models.functions import Concat, Left

INSTRUCTION_CHARS = 20_000
"""Postgres refuses search vectors of more than a megabyte."""


class Words(Func):
    """`to_tsvector('simple', …)` of an expression, in a form that can be indexed."""

    function = "to_tsvector"
    # ASCII ranges instead of [:punct:], whose meaning depends on the database's locale.
    template = (
        "to_tsvector('simple'::regconfig, "
        r"regexp_replace(%(expressions)s, '[\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e]+', ' ', 'g'))"
    )
    output_field = SearchVectorField()


TASK_WORDS = Words(
    Concat("key", Value(" "), Left("instruction", INSTRUCTION_CHARS), output_field=TextField()),
)


def tsquery_of(words: str) -> str:
    """A tsquery that requires a prefix match of every word; "" if there are no words."""
    terms = re.findall(r"[^\s\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]+", words)[:12]
    return " & ".join(f"'{word}':*" for word in terms)
