"""Renders a piece of content by what it is: its form is detected from the content, never from its name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from apps.common.markup import NOTHING, Markup, element
from apps.common.nested_json import Unreadable, decode_result
from apps.trajectories.rendering import diffs, images, markdown, pages, shapes, terminal
from apps.trajectories.rendering.forms import ContentLocation, chunk
from apps.trajectories.rendering.kinds import RUN, Kind
from apps.trajectories.rendering.text import legible, one_line, size_text

MAX_PARTS = 40

_JSON = re.compile(r"\s*[\[{]")


@dataclass(frozen=True)
class Block:
    """A block in `steps.jinja`: safe markup, a line above it, and a link to an alternative view."""

    form: str
    html: Markup
    more: Markup
    label: str = ""
    note: str = ""
    is_bad: bool = False
    source: str = ""
    """Address of the raw content, if `html` shows it in another form."""
    text: str = ""
    """The content of `html` if it's plain text, for comparisons."""


def blocks_of(content: Any, url: str, at: str, *, tool: Kind | None = None, spoken: bool = False) -> list[Block]:
    """A message's content: text, null, or a list of typed parts. `spoken`: text by a person or model, not a tool's result."""
    if content is None or content == "":
        return []
    if not isinstance(content, list):
        return [text_block(content, ContentLocation(url, at), tool=tool, spoken=spoken)]
    shown = [
        _part(part, ContentLocation(url, f"{at}.{i}"), tool=tool, spoken=spoken)
        for i, part in enumerate(content[:MAX_PARTS])
    ]
    if rest := content[MAX_PARTS:]:
        location = ContentLocation(url, f"{at}.{MAX_PARTS}-{len(content) - 1}")
        shown.append(as_form(rest, location, "tree", label=f"{len(rest):,} more part{'' if len(rest) == 1 else 's'}"))
    return shown


def text_block(
    value: Any,
    location: ContentLocation,
    *,
    tool: Kind | None = None,
    spoken: bool = False,
    argument: bool = False,
) -> Block:
    """Text (or a JSON value) in the appropriate form. `argument`: the policy wrote it to a tool."""
    if not isinstance(value, str):
        return as_form(value, location, form_of_json(value, complete=True))  # it has no source to link to
    form, json_value = choose(value, tool=tool, spoken=spoken, argument=argument)
    return as_form(value if json_value is None else json_value, location, form, text=value)


def as_form(value: Any, location: ContentLocation, form: str, *, text: str = "", label: str = "") -> Block:
    """`value` in a given form."""
    html, more, plain = chunk(value, location, form)
    code = terminal.unwrap(text)[1] if form == "terminal" else None
    return Block(
        form=form,
        html=html
        if form != "terminal" or code is None or _has_words(html)
        else element("p", "No output", class_="quiet"),
        more=more,
        label=label or (f"Exit code {code}" if code else ""),
        is_bad=bool(code),
        source=location.link("text")
        if form in {"page", "tree", "table", "results", "mail", "markdown"} and text
        else "",
        text=plain,
    )


def choose(text: str, *, tool: Kind | None = None, spoken: bool = False, argument: bool = False) -> tuple[str, Any]:
    """The form for a text, and its JSON value if the form needs one. Examines the beginning; only JSON is read in full.

    Of what was spoken, and of arguments, no form leaves out anything: a page's scripts are part of what the policy wrote.
    """
    if _JSON.match(text):
        try:
            value = decode_result(text)
        except Unreadable:
            pass
        else:
            if isinstance(value, dict | list) and value:
                return form_of_json(value, complete=spoken or argument), value
    if diffs.looks_like_patch(text) and not spoken:
        return "patch", None
    if argument:
        return "text", None
    if pages.looks_like_page(text):
        # A person's text may quote markup; a tool result that looks like a page is one.
        return ("text" if spoken or not pages.is_readable(text) else "page"), None
    if spoken:
        return ("markdown" if markdown.looks_like_markdown(text) else "prose"), None
    if tool == RUN or "\x1b[" in text[:4000] or terminal.unwrap(text)[1] is not None:
        return "terminal", None
    return "text", None


def form_of_json(value: Any, *, complete: bool = False) -> str:
    """Uniform rows become a table, search results a list, email a message; anything else a tree. So does, with `complete`, what would lose something."""
    form = _shape_of(value)
    return "tree" if complete and not shapes.shows_all(value, form) else form


def _shape_of(value: Any) -> str:
    if shapes.is_results(value):
        return "results"
    if shapes.is_table(value):
        return "table"
    return "mail" if shapes.is_mail(value) else "tree"


def note(text: str) -> Block:
    """A line of ours in place of content that can't be shown."""
    return Block("note", element("p", text, class_="quiet"), NOTHING)


def text_of_part(part: Any) -> str | None:
    """The text of a part that is nothing else: other types may hold a text beside what they are about."""
    if not isinstance(part, dict) or part.get("type") not in (None, "text", "input_text", "output_text"):
        return None
    text = part.get("text")
    return text if isinstance(text, str) else None


def _part(part: Any, location: ContentLocation, *, tool: Kind | None, spoken: bool) -> Block:
    if isinstance(part, str):
        return text_block(part, location, tool=tool, spoken=spoken)
    if not isinstance(part, dict):
        return text_block(part, location)
    kind = part.get("type")
    if (text := text_of_part(part)) is not None:
        return text_block(text, location, tool=tool, spoken=spoken)
    if kind in {"image_url", "image", "input_image"}:
        return _image(part, location)
    return as_form(part, location, "tree", label=one_line(str(kind), 60) if isinstance(kind, str) else "")


def _image(part: dict[str, Any], location: ContentLocation) -> Block:
    picture = images.picture_of(part)
    if isinstance(picture, str):
        address = images.address_of(part)
        shown = shapes.web_link(address, one_line(address, 120)) if address else ""
        return Block("note", element("p", picture, " ", shown, class_="quiet"), NOTHING)
    size = size_text(len(picture.body)).replace("character", "byte")
    html = element(
        "img",
        src=location.link("image"),
        width=picture.width,
        height=picture.height,
        loading="lazy",
        decoding="async",
        alt=legible(str(part.get("alt") or "Image from the trajectory"))[:200],
    )
    return Block("picture", html, NOTHING, label=f"{picture.width} × {picture.height}, {size}")


def _has_words(html: Markup) -> bool:
    return not html.endswith('"></pre>')
