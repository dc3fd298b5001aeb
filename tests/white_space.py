"""Collapses insignificant white space in pages, so that tests don't depend on line breaks in templates."""

import re
from collections.abc import Callable
from typing import Any

BLOCK = (
    r"article|aside|body|caption|d[dlt]|details|dialog|div|fieldset|figcaption|figure|footer|form|h[1-4]|head|header"
    r"|hr|html|legend|li|link|main|menu|meta|nav|ol|optgroup|option|p|pre|section|summary|t[dhr]|table|tbody|template"
    r"|tfoot|thead|title|ul"
)
"""Elements next to whose tags white space isn't rendered."""
EXACT = re.compile(r"(<(pre|textarea|script|style)\b[^>]*>)(.*?)(?=</\2>)", re.S | re.I)
TAG = re.compile(r"""<[a-z/][^>"']*(?:"[^"]*"[^>"']*|'[^']*'[^>"']*)*>""", re.I)
SPACE_IN_TAG = re.compile(r"""("[^"]*"|'[^']*')|\s+(>?)""", re.A)
AROUND_BLOCK = re.compile(rf""" ?(</?(?:{BLOCK})\b(?:[^>"']|"[^"]*"|'[^']*')*>) ?""", re.I)
SPACE = re.compile(r"\s+", re.A)


def collapsed(html: str) -> str:
    """The same document with runs of white space reduced to one space, or none next to block elements; attribute values and <pre> are unchanged."""
    parts: list[str] = []
    position = 0
    for match in EXACT.finditer(html):
        parts += [_collapsed(html[position : match.start(3)]), match[3]]
        position = match.end(3)
    return "".join([*parts, _collapsed(html[position:])])


def _collapsed(html: str) -> str:
    parts: list[str] = []
    position = 0
    for match in TAG.finditer(html):
        tag = SPACE_IN_TAG.sub(_in_tag, match[0]) if "\n" in match[0] else match[0]
        parts += [_text(html[position : match.start()]), tag]
        position = match.end()
    return AROUND_BLOCK.sub(r"\1", "".join([*parts, _text(html[position:])]))


def _text(text: str) -> str:
    return SPACE.sub(" ", text) if text.isspace() or "\n" in text or "  " in text else text


def _in_tag(match: re.Match[str]) -> str:
    return match[1] or match[2] or " "


def with_collapsed_pages(request: Callable[..., Any]) -> Callable[..., Any]:
    """`Client.request` with HTML responses collapsed."""

    def collapsing(*args: Any, **kwargs: Any) -> Any:
        response = request(*args, **kwargs)
        if not response.streaming and response.get("Content-Type", "").startswith("text/html"):
            response.content = collapsed(response.content.decode()).encode()
        return response

    return collapsing
