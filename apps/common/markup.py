"""The only module that creates HTML markup: everything else passes text, which templates and this module escape.

`.ci/markup.py` (part of `make lint`) keeps `mark_safe`, `|safe` and the like out of every other file. Docs: docs/security.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

import markupsafe
import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

Markup = SafeString
"""Safe markup. Only functions of this module create it; elsewhere, use it only as a type."""

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
    """A tag or attribute that isn't on this module's lists. Add it if it can neither run nor request anything."""


class Tag(NamedTuple):
    """A prepared opening tag, for wrapping many texts."""

    name: str
    opening: str

    def around(self, *children: str) -> Markup:
        """The element, with its children escaped unless they are markup."""
        return mark_safe(f"{self.opening}{joined(children)}</{self.name}>")


def tag(name: str, /, **attributes: str | int | bool | None) -> Tag:
    """An opening tag. `class_` stands for class, `aria_label` for aria-label; None and False omit an attribute; True writes only its name.

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
    """Concatenate parts: text is escaped, markup isn't."""
    return mark_safe("".join([part if isinstance(part, SafeString) else escape(part) for part in parts]))


def text(content: str) -> Markup:
    """Escaped text."""
    return escape(content)


def of_template(written: object) -> Markup:
    """The output of a macro of apps.common.compiled_templates, which is markup only if autoescaping was on."""
    if not isinstance(written, markupsafe.Markup):
        raise UnknownMarkup("A template wrote text, not markup.")
    return mark_safe(str(written))


def is_web_address(address: str) -> bool:
    """Whether a link may use this address: http, https, or mailto, but no scheme that browsers execute."""
    try:
        return urlsplit(address.strip()).scheme.lower() in _SCHEMES - {""}
    except ValueError:
        return False


def sanitized(html: str) -> Markup:
    """Sanitize markup from another renderer: only structure remains, without scripts, styles, classes, ids, or handlers."""
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
    if name in ("href", "src") and not _is_harmless_link(str(value)):
        raise UnknownMarkup(f"{name} leads to {str(value)[:40]!r}; it may be a path, http, https or mailto.")
    return f' {name}="{escape(value)}"'


def _is_harmless_link(address: str) -> bool:
    return address.startswith(("/", "#", "?")) or is_web_address(address)
