"""Renders web pages as their readable text. Their markup only appears as escaped source."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import nh3

from apps.trajectories.rendering.text import legible

MAX_CHARS = 200_000
"""Characters of a page that are rendered; its source has the rest."""

MAX_DEPTH = 150
"""HTML parsers take time quadratic in the depth of open elements. No page written for people comes near this."""

_PAGE = re.compile(
    r"\s*(?:<!doctype\s+html|<html[\s>]|<head[\s>]|<body[\s>]|<\?xml[^>]{0,80}\?>\s*<(?:html|svg))", re.IGNORECASE
)
_TAGS = re.compile(
    r"<(?:div|p|span|table|ul|ol|li|a|h[1-6]|section|article|nav|script|style|svg|img|form|input|button)[\s>/]",
    re.IGNORECASE,
)
_BLOCKS = {
    *("p", "div", "section", "article", "header", "footer", "main", "nav", "aside", "ul", "ol", "table", "tr", "form"),
    *(
        "blockquote",
        "pre",
        "figure",
        "fieldset",
        "dl",
        "dt",
        "dd",
        "br",
        "hr",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "li",
    ),
}
_INLINE = {"a", "img", "td", "th", "input", "button", "select", "textarea", "title"}
_DROPPED = {"script", "style", "template", "svg", "noscript", "iframe", "object", "math", "head"}
_NESTING = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]{0,20})")
_CLOSED_BY_THE_NEXT = {"p", "li", "td", "th", "tr", "dt", "dd", "option", "thead", "tbody"}
_VOID = {"br", "hr", "img", "input", "meta", "link", "wbr", "area", "base", "col", "embed", "source", "track"}


def looks_like_page(text: str) -> bool:
    """Whether a text begins like an HTML document, or like a fragment that is mostly markup."""
    head = text[:1500]
    return bool(_PAGE.match(head)) or (head.lstrip()[:1] == "<" and len(_TAGS.findall(head)) >= 3)


def is_readable(html: str) -> bool:
    """Whether a page has a normal nesting depth; others are shown as source."""
    depth = 0
    for match in _NESTING.finditer(html[:MAX_CHARS]):
        tag = match[2].lower()
        if tag in _VOID or tag in _CLOSED_BY_THE_NEXT:
            continue
        depth = max(0, depth - 1) if match[1] else depth + 1
        if depth > MAX_DEPTH:
            return False
    return True


def text_of(html: str) -> str:
    """The readable text: headings, list items, and links marked, scripts and styles left out; unreadable pages unchanged."""
    if not is_readable(html):
        return html
    # html5ever parses any input in linear time; its output is regular enough for Python's own parser, which
    # on raw pages takes quadratic time for, say, unclosed comments.
    regular = nh3.clean(
        legible(html[:MAX_CHARS]),
        tags=_BLOCKS | _INLINE,
        clean_content_tags=_DROPPED,
        attributes={"*": {"href", "alt", "value", "placeholder", "aria-label", "name"}},
        link_rel=None,
    )
    reader = _Reader()
    reader.feed(regular)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.parts).split("\n"))
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return text if len(html) <= MAX_CHARS else f"{text}\n\n… The page goes on. Its source has the rest."


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag in _BLOCKS:
            self.parts.append("\n")
        if tag in {"h1", "h2", "h3", "h4", "h5", "h6"}:
            self.parts.append(f"\n{'#' * int(tag[1])} ")
        elif tag == "li":
            self.parts.append("• ")
        elif tag in {"td", "th"}:
            self.parts.append(" | ")
        elif tag == "img":
            self.parts.append(f"[image: {(attributes.get('alt') or 'no description')[:200]}]")
        elif tag in {"input", "button", "select", "textarea"}:
            name = (
                attributes.get("value")
                or attributes.get("placeholder")
                or attributes.get("aria-label")
                or attributes.get("name")
                or ""
            )
            self.parts.append(f"[{tag}{': ' if name else ''}{name[:100]}] ")
        elif tag == "a":
            self.links.append(attributes.get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "a" and self.links:
            address = self.links.pop()
            if address.startswith(("http://", "https://", "mailto:", "/")):
                self.parts.append(f" ‹{address[:200]}›")
        elif tag in _BLOCKS and tag not in _VOID:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        self.parts.append(data)
