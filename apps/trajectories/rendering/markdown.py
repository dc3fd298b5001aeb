"""Markdown as models write it: rendered on the server, then sanitized as if the renderer could not be trusted."""

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
"""The level of the heading over a part of a step."""


def render(text: str, *, under: int = PART) -> Markup:
    """Safe markup: no raw HTML, no images, links only to http, https and mailto.

    Its headings take their place in the outline of the page: below level `under`, and none more than one level below the one before.
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
    """Whether the beginning of a text has any of Markdown's signs."""
    head = "\n" + text[:4000]
    return any(sign in head for sign in _SIGNS)


def safe_end(text: str, end: int) -> int:
    """`end` moved back so that a cut there leaves no code fence open, where that is possible."""
    if text.count("```", 0, end) % 2 == 0:
        return end
    opening = text.rfind("```", 0, end)
    line = text.rfind("\n", 0, opening) + 1
    return line if line > end // 4 else end
