"""Encoding of text in responses: pages, JSON, downloads, and websockets. And which text Postgres can store."""

import re
from typing import Any

from django.http.response import HttpResponseBase


def utf8(text: str) -> bytes:
    r"""UTF-8. Lone surrogates, which UTF-8 can't encode, are written as `\ud800` escapes, which keeps JSON equivalent."""
    return text.encode("utf-8", "backslashreplace")


def escaped(text: str) -> str:
    """Text with lone surrogates escaped."""
    return text if text.isascii() else utf8(text).decode()


def encode_answers() -> None:
    """Make all Django responses encode their content with `utf8`. Django has no setting for it, and would return a 500."""
    make_bytes = HttpResponseBase.make_bytes

    def encoded(response: HttpResponseBase, value: object) -> bytes:
        is_utf8 = isinstance(value, str) and str(response.charset).lower() in ("utf-8", "utf8")
        return utf8(str(value)) if is_utf8 else make_bytes(response, value)

    patched: Any = HttpResponseBase
    patched.make_bytes = encoded


UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def is_storable(text: str) -> bool:
    return not UNSTORABLE.search(text)


def holds_unstorable(value: Any) -> bool:
    """Whether some text in a JSON value, however deep, can't be stored."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if not is_storable(part):
                return True
        elif isinstance(part, dict):
            waiting += part.keys()
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return False
