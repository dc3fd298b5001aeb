"""The forms in which content is displayed, and their continuations: any stretch of any content, as markup of bounded size."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

from apps.common.markup import NOTHING, Markup, element, joined
from apps.common.markup import text as as_text
from apps.common.nested_json import Unreadable, decode_result
from apps.trajectories.rendering import diffs, markdown, pages, shapes, terminal, trees
from apps.trajectories.rendering.text import Excerpt, excerpt, legible, size_text

MARKDOWN_CHARS = 16_000
"""Markdown is rendered in pieces of at most this size: parts of its grammar take quadratic time."""

DOWNLOAD_CHARS = 100_000
"""Above this size a download is offered as well."""


class ContentLocation(NamedTuple):
    """The location of a piece of content: the address of its step's parts, and its name within the step."""

    url: str
    at: str

    def link(self, form: str, start: int = 0, path: str = "") -> str:
        """The address of the content in `form`, from `start` on."""
        url = f"{self.url}?at={quote(self.at)}&as={form}&from={start}"
        return f"{url}&path={quote(path)}" if path else url

    @property
    def download(self) -> str:
        return f"{self.url}?at={quote(self.at)}&raw=1"


class Chunk(NamedTuple):
    """Markup, and the link to the rest ("" at the end). `text`: the content of `html` if it's plain text."""

    html: Markup
    more: Markup
    text: str = ""


class _Linear(NamedTuple):
    """A form that is linear text, and so can be cut anywhere and continued."""

    render: Callable[[str], Markup]
    prepare: Callable[[str], str] = str
    tag: str = "pre"
    paragraphs: bool = False


def _plain(text: str) -> Markup:
    return as_text(legible(text))


LINEAR = {
    "text": _Linear(_plain),
    "prose": _Linear(_plain, tag="div", paragraphs=True),
    "markdown": _Linear(markdown.render, tag="div", paragraphs=True),
    "terminal": _Linear(terminal.render, prepare=lambda text: terminal.unwrap(text)[0]),
    "patch": _Linear(diffs.render_patch),
    "edit": _Linear(diffs.render_edit),
    "page": _Linear(_plain, prepare=pages.text_of),
    "command": _Linear(_plain),
}
PLAIN = frozenset({"text", "prose", "command"})
FORMS = frozenset({*LINEAR, "tree", "table", "results", "mail"})


def chunk(value: Any, location: ContentLocation, form: str, *, start: int = 0, path: str = "") -> Chunk:
    """A screenful of `value` from `start` on. Falls back to text if the form doesn't fit. Raises LookupError."""
    if form in LINEAR:
        return _linear(_text_of(value), location, form, start)
    try:
        value = trees.child(decode_result(value) if isinstance(value, str) else value, path)
    except Unreadable:
        return _linear(_text_of(value), location, "text", start)
    if form == "tree":
        return _tree(value, location, start, path)
    if form == "table" and isinstance(value, list):
        return _rows(shapes.render_table(value, start), value, location, form, start)
    if form == "results" and isinstance(value, list):
        return _rows(shapes.render_results(value, start), value, location, form, start)
    if form == "mail" and shapes.is_mail(value):
        return _mail(value, location, start)
    return _tree(value, location, start, path)


def _linear(text: str, location: ContentLocation, form: str, start: int) -> Chunk:
    shape = LINEAR[form]
    body = shape.prepare(text)
    cut = excerpt(body, start, paragraphs=shape.paragraphs)
    if form == "markdown":
        cut = _markdown_piece(body, cut)
    html = element(shape.tag, shape.render(cut.text), class_=form)
    return Chunk(html, _more_link(body, cut, location, form), cut.text if form in PLAIN else "")


def plain_markup(form: str, inner: Markup) -> Markup:
    """The markup of a plain form around text that is already safe."""
    return element(LINEAR[form].tag, inner, class_=form)


def _markdown_piece(body: str, cut: Excerpt) -> Excerpt:
    length = min(len(cut.text), MARKDOWN_CHARS)
    if cut.start + length < cut.total:
        length = markdown.safe_end(cut.text, length)
    end = cut.start + length
    return Excerpt(body[cut.start : end], cut.start, end, cut.total)


def _more_link(body: str, cut: Excerpt, location: ContentLocation, form: str) -> Markup:
    if not cut.is_cut:
        return NOTHING
    remaining = size_text(cut.total - cut.end, body.count("\n", cut.end) + 1)
    return _link(location, form, cut.end, remaining, downloads=cut.total > DOWNLOAD_CHARS)


def _link(
    location: ContentLocation, form: str, start: int, remaining: str, *, downloads: bool = False, path: str = ""
) -> Markup:
    rest = element("span", f"{remaining} left", class_="left")
    link = element("a", "Show more ", rest, class_="more", data_more=True, href=location.link(form, start, path))
    download = (
        element("a", "Download", class_="more raw", href=location.download, download=True) if downloads else NOTHING
    )
    return element("div", link, download, class_="more-row")


def _tree(value: Any, location: ContentLocation, start: int, path: str) -> Chunk:
    if isinstance(value, str):
        return _string_rest(value, location, start, path)
    html = trees.render(value, lambda at, begin: location.link("tree", begin, at), path=path, start=start)
    return Chunk(html, NOTHING)


def _string_rest(value: str, location: ContentLocation, start: int, path: str) -> Chunk:
    """A long string of a tree, from `start` on."""
    cut = excerpt(value, start)
    html = element("pre", legible(cut.text), class_="text string")
    more = _link(location, "tree", cut.end, size_text(cut.total - cut.end), path=path) if cut.is_cut else NOTHING
    return Chunk(html, more)


def _rows(html: Markup, value: list[Any], location: ContentLocation, form: str, start: int) -> Chunk:
    end = start + shapes.ROWS
    remaining = len(value) - end
    return Chunk(
        html,
        _link(location, form, end, f"{remaining:,} row{'' if remaining == 1 else 's'}") if remaining > 0 else NOTHING,
    )


def _mail(mail: dict[str, Any], location: ContentLocation, start: int) -> Chunk:
    cut = excerpt(mail["body"], start, paragraphs=True)
    body = element("div", legible(cut.text), class_="prose")
    html = body if start else joined([shapes.render_mail_head(mail), body])
    return Chunk(html, _more_link(mail["body"], cut, location, "mail"))


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value

    try:
        return json.dumps(value, ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return "(nested too deeply to be written out)"
