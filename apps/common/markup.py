"""The one place that makes markup of text: everything else in the project hands over text, which templates and this module escape.

`.ci/markup.py` (part of `make lint`) keeps `mark_safe`, `|safe` and the like out of every other file. Docs: docs/security.md.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

Markup = SafeString
"""Text that is markup already. Only the functions of this module make one; elsewhere the name is a type."""

NOTHING = mark_safe("")

_TAGS = frozenset(
    {
        *("a", "abbr", "code", "dd", "details", "div", "dl", "dt", "img", "li", "mark", "ol", "p", "pre", "span"),
        *("summary", "table", "tbody", "td", "th", "thead", "time", "tr", "ul"),
        *("svg", "title", "use", "line", "polyline", "rect"),
    }
)
_VOID = frozenset({"img", "line", "polyline", "rect", "use"})
_ATTRIBUTES = frozenset(
    {
        *("alt", "class", "datetime", "decoding", "download", "height", "href", "loading", "open", "rel", "role"),
        *("scope", "src", "target", "title", "width", "aria-hidden", "aria-label"),
        *("data-more", "data-relative"),
        *("points", "preserveAspectRatio", "rx", "viewBox", "x", "x1", "x2", "y", "y1", "y2"),
    }
)
_SCHEMES = frozenset({"", "http", "https", "mailto"})
_PROSE = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code"),
    *("em", "strong", "s", "a", "table", "thead", "tbody", "tr", "th", "td"),
}


class UnknownMarkup(ValueError):
    """A tag or attribute that this module does not write. Add it to its lists, if it can neither run nor request anything."""


class Tag(NamedTuple):
    """An opening tag, ready to be written around many texts."""

    name: str
    opening: str

    def around(self, *children: str) -> Markup:
        """The element, with its children escaped unless they are markup."""
        return mark_safe(f"{self.opening}{joined(children)}</{self.name}>")


def tag(name: str, /, **attributes: str | int | bool | None) -> Tag:
    """An opening tag. `class_` stands for class, `aria_label` for aria-label; None and False leave an attribute out, True writes its name alone.

    Raises UnknownMarkup for a tag or attribute that is not on the lists above: no `hx-…`, no `on…`, no `style`.
    """
    if name not in _TAGS:
        raise UnknownMarkup(f"<{name}> is not among the tags of apps.common.markup.")
    return Tag(name, f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>")


def element(name: str, /, *children: str, **attributes: str | int | bool | None) -> Markup:
    """One element; see `tag`. A void or childless SVG element is closed at once."""
    opened = tag(name, **attributes)
    if name in _VOID:
        return mark_safe(opened.opening if name == "img" else f"{opened.opening[:-1]}/>")
    return opened.around(*children)


def joined(parts: Iterable[str]) -> Markup:
    """The parts after each other: text is escaped, markup stays."""
    return mark_safe("".join([part if isinstance(part, SafeString) else escape(part) for part in parts]))


def text(content: str) -> Markup:
    """Escaped text."""
    return escape(content)


def addressed(markup: Markup, placeholder: re.Pattern[str], address: Callable[[re.Match[str]], str]) -> Markup:
    """The markup with each placeholder of an address in it replaced by the address, escaped."""
    return mark_safe(placeholder.sub(lambda match: escape(address(match)), markup))


def packed(markup: Markup) -> bytes:
    """Markup to keep outside of the process; a tenth of its size."""
    if not isinstance(markup, SafeString):
        raise UnknownMarkup("Text was to be kept as markup.")
    return zlib.compress(markup.encode(), 1)


def unpacked(kept: bytes) -> Markup:
    """What `packed` was given. The caller vouches that nobody else wrote `kept`."""
    return mark_safe(zlib.decompress(kept).decode())


def is_web_address(address: str) -> bool:
    """Whether a link may lead there: http, https or mailto. A scheme that browsers would run is none of them."""
    try:
        return urlsplit(address.strip()).scheme.lower() in _SCHEMES - {""}
    except ValueError:
        return False


def sanitized(html: str) -> Markup:
    """What survives of markup that somebody else's renderer made: structure only. No scripts, styles, classes, ids or handlers."""
    return mark_safe(
        nh3.clean(
            html,
            tags=_PROSE,
            attributes={"a": {"href", "title"}, "ol": {"start"}},
            url_schemes=set(_SCHEMES - {""}),
            link_rel="noopener nofollow noreferrer",
            set_tag_attribute_values={"a": {"target": "_blank"}},
        )
    )


def _attribute(key: str, value: str | int | bool | None) -> str:
    name = key.removesuffix("_").replace("_", "-")
    if name not in _ATTRIBUTES:
        raise UnknownMarkup(f"{name} is not among the attributes of apps.common.markup.")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    if name in ("href", "src") and not _leads_somewhere_harmless(str(value)):
        raise UnknownMarkup(f"{name} leads to {str(value)[:40]!r}; it may be a path, http, https or mailto.")
    return f' {name}="{escape(value)}"'


def _leads_somewhere_harmless(address: str) -> bool:
    return address.startswith(("/", "#", "?")) or is_web_address(address)
