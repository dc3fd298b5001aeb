"""Words of tasks, indexed: the key and the beginning of the instruction, split at spaces and ASCII punctuation."""

from __future__ import annotations

import re

from django.contrib.postgres.search import SearchVectorField
from django.db.models import Func, TextField, Value
from django.db.models.functions import Concat, Left

INSTRUCTION_CHARS = 20_000
"""Postgres refuses search vectors of more than a megabyte."""


class Words(Func):
    """`to_tsvector('simple', …)` of an expression, written so that an index can hold it."""

    function = "to_tsvector"
    # Ranges of ASCII and not [:punct:], whose meaning depends on the database's locale.
    template = (
        "to_tsvector('simple'::regconfig, "
        r"regexp_replace(%(expressions)s, '[\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e]+', ' ', 'g'))"
    )
    output_field = SearchVectorField()


TASK_WORDS = Words(
    Concat("key", Value(" "), Left("instruction", INSTRUCTION_CHARS), output_field=TextField()),
)


def words_to_query(words: str) -> str:
    """A tsquery of all the words, each as the beginning of one; "" where there is no word."""
    found = re.findall(r"[^\s\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]+", words)[:12]
    return " & ".join(f"'{word}':*" for word in found)
