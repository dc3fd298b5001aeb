"""Renders models' Markdown on the server, then sanitizes it as if the renderer were untrusted.

Nothing that a model wrote may be missing from the page. Markdown that would hide a word is shown as it was written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import takewhile
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from apps.common.markup import Markup, element, sanitized
from apps.trajectories.rendering.text import legible

_parser = (
    MarkdownIt("commonmark", {"html": False, "breaks": True, "linkify": False, "maxNesting": 12})
    .enable(["table", "strikethrough"])
    .disable(["image", "reference"])
)
_SIGNS = ("```", "**", "\n# ", "\n## ", "\n### ", "\n- ", "\n* ", "\n1. ", "](http", "`", "\n|", "\n> ")


_WORD = re.compile(r"[^\W_]+")
_LANGUAGE = re.compile(r"[\w+#.-]{0,20}\s*")
"""What may follow the fence of a block of code and not be shown."""

PART = 3
"""The level of the heading of a step's part."""


def render(text: str, *, under: int = PART) -> Markup:
    """Safe markup: no raw HTML, no images, links only to http, https, and mailto.

    Headings are adjusted to the page's outline: below level `under`, and at most one level below the previous heading.
    """
    source = legible(text)
    tokens = _parser.parse(source)
    for token in _with_children(tokens):
        token.content = legible(token.content)  # character references may name marks that reorder text
        if token.type == "fence" and not _LANGUAGE.fullmatch(token.info):
            token.content, token.info = f"{token.markup}{token.info}\n{token.content}", ""
    if _words([source]) - _words(_shown(tokens)):
        return element("div", source, class_="prose")
    _fit_headings(tokens, under)
    return sanitized(_parser.renderer.render(tokens, _parser.options, {}))


def _words(texts: Iterable[str]) -> Counter[str]:
    return Counter(word for text in texts for word in _WORD.findall(text))


def _with_children(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _with_children(token.children or ())


def _shown(tokens: list[Token]) -> Iterator[str]:
    """The texts on the page, and the addresses of links that one can see. Not the source of `inline`, which its children show."""
    for token in tokens:
        children = token.children or []
        for index, child in enumerate(children):
            if child.type == "link_open":
                label = takewhile(lambda inside: inside.type != "link_close", children[index:])
                if child.info != "auto" and any(_WORD.search(inside.content) for inside in label):
                    address = str(child.attrGet("href"))
                    yield f"{address} {unquote(address)}"
            else:
                yield child.content
        if token.type in ("fence", "code_block"):
            yield f"{token.info} {token.content}"
        elif token.type == "list_item_open":
            yield token.info  # the number, as written


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
