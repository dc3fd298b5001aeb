"""Renders models' Markdown on the server, then sanitizes it as if the renderer were untrusted."""

from __future__ import annotations

from markdown_it import MarkdownIt
from markdown_it.token import Token

from apps.common.markup import Markup, sanitized
from apps.trajectories.rendering.text import legible

_parser = (
    MarkdownIt("commonmark", {"html": False, "breaks": True, "linkify": False, "maxNesting": 12})
    .enable(["table", "strikethrough"])
    .disable(["image", "reference"])
)
_SIGNS = ("```", "**", "\n# ", "\n## ", "\n### ", "\n- ", "\n* ", "\n1. ", "](http", "`", "\n|", "\n> ")


PART = 3
"""The level of the heading of a step's part."""


def render(text: str, *, under: int = PART) -> Markup:
    """Safe markup: no raw HTML, no images, links only to http, https, and mailto.

    Headings are adjusted to the page's outline: below level `under`, and at most one level below the previous heading.
    """
    tokens = _parser.parse(legible(text))
    _fit_headings(tokens, under)
    return sanitized(_parser.renderer.render(tokens, _parser.options, {}))


def _fit_headings(tokens: list[Token], under: int) -> None:
    before = under
    for token in tokens:
        if token.type == "heading_open":
            before = min(under + int(token.tag[1]), before + 1, 6)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{before}"


def looks_like_markdown(text: str) -> bool:
    """Whether the beginning of a text has any Markdown syntax."""
    head = "\n" + text[:4000]
    return any(sign in head for sign in _SIGNS)


def safe_end(text: str, end: int) -> int:
    """`end`, moved back if possible so that a cut there doesn't split a code fence."""
    if text.count("```", 0, end) % 2 == 0:
        return end
    opening = text.rfind("```", 0, end)
    line = text.rfind("\n", 0, opening) + 1
    return line if line > end // 4 else end
