"""Renders JSON of familiar shapes: rows as a table, search results as a list, email as a message."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from apps.common.markup import Markup, element, is_web_address, joined
from apps.trajectories.rendering.text import legible, one_line

ROWS = 40
COLUMNS = 12
CELL = 160
SNIPPET = 400
MAIL_FIELDS = 20
FIELD = 60
MAIL_FIELD = 40
MAX_ADDRESS = 2_000
"""A longer address isn't a link."""

_LINK = ("url", "link", "href")
_SNIPPET = ("snippet", "description", "summary", "content", "text", "body")


def is_table(value: Any) -> bool:
    """Objects with the same few fields, nearly all of them scalars."""
    if not (isinstance(value, list) and value and all(isinstance(row, dict) and row for row in value[:ROWS])):
        return False
    fields = set(value[0])
    if not 1 < len(fields) <= COLUMNS or any(len(fields ^ set(row)) > len(fields) // 3 for row in value[:ROWS]):
        return False
    cells = [cell for row in value[:ROWS] for cell in row.values()]
    nested = sum(isinstance(cell, dict | list) for cell in cells)
    long = sum(isinstance(cell, str) and len(cell) > CELL for cell in cells)
    return nested * 4 <= len(cells) and long * 6 <= len(cells)


def render_table(rows: list[Any], start: int = 0) -> Markup:
    """Rows from `start` on, up to ROWS of them."""
    fields = list(dict.fromkeys(str(key) for row in rows[:ROWS] if isinstance(row, dict) for key in row))[:COLUMNS]
    head = element("tr", *(element("th", one_line(field, FIELD), scope="col") for field in fields))
    body = (
        element("tr", *(_cell(row.get(field)) for field in fields))
        for row in rows[start : start + ROWS]
        if isinstance(row, dict)
    )
    return element("div", element("table", element("thead", head), element("tbody", *body)), class_="cells")


def is_results(value: Any) -> bool:
    """A list of objects with a title and an address."""
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(
            isinstance(hit, dict) and isinstance(hit.get("title"), str) and _first(hit, _LINK) for hit in value[:ROWS]
        )
    )


def render_results(hits: list[Any], start: int = 0) -> Markup:
    """Results from `start` on: title, address, snippet. Only web addresses become links."""
    parts = []
    for hit in hits[start : start + ROWS]:
        if not isinstance(hit, dict):
            continue
        address = _first(hit, _LINK)
        parts.append(
            element(
                "li",
                web_link(address, one_line(str(hit.get("title", "")), CELL)),
                element("span", one_line(address, CELL), class_="address"),
                element("p", one_line(_first(hit, _SNIPPET), SNIPPET)),
            )
        )
    return element("ol", *parts, class_="results")


def is_mail(value: Any) -> bool:
    """An object with a subject, a body, and a sender or recipient."""
    if not isinstance(value, dict):
        return False
    return (
        isinstance(value.get("subject"), str)
        and isinstance(value.get("body"), str)
        and any(key in value for key in ("from", "to", "sender", "recipient", "recipients"))
    )


def render_mail_head(mail: dict[str, Any]) -> Markup:
    """All fields except the body, which follows as text."""
    rows = (
        joined([element("dt", one_line(str(key), MAIL_FIELD)), element("dd", _plain(value))])
        for key, value in list(mail.items())[:MAIL_FIELDS]
        if key != "body"
    )
    return element("dl", *rows, class_="mail-head")


def shows_all(value: Any, form: str) -> bool:
    """Whether the form shows all of a value that has its shape: no field is left out, and no text cut."""
    if form == "table":
        fields = {key for row in value[:ROWS] for key in row}
        return len(fields) <= COLUMNS and all(isinstance(row, dict) and _is_whole(row, fields, FIELD) for row in value)
    if form == "results":
        return all(isinstance(hit, dict) and _is_whole_hit(hit) for hit in value)
    if form == "mail":
        head = {key: field for key, field in value.items() if key != "body"}
        return len(value) <= MAIL_FIELDS and _is_whole(head, head.keys(), MAIL_FIELD)
    return True


def _is_whole(row: dict[str, Any], fields: Collection[str], name_chars: int) -> bool:
    return all(key in fields and _fits(key, name_chars) and _fits(_text(cell), CELL) for key, cell in row.items())


def _is_whole_hit(hit: dict[str, Any]) -> bool:
    shown = {str(hit.get("title")): CELL, _first(hit, _LINK): CELL, _first(hit, _SNIPPET): SNIPPET}
    return len([field for field in hit.values() if field not in (None, "")]) <= len(
        [text for text in shown if text]
    ) and all(_fits(text, limit) for text, limit in shown.items())


def _fits(text: str, limit: int) -> bool:
    return one_line(text, limit) == " ".join(legible(text).split())


def web_link(address: str, text: str) -> Markup:
    """A link that leaves the page safely; plain text unless the address is http, https, or mailto."""
    shown = legible(address.strip())
    if not is_web_address(shown) or len(address) > MAX_ADDRESS:
        return element("span", text, class_="title")
    return element("a", text, class_="title", href=shown, target="_blank", rel="noopener nofollow noreferrer")


def _first(hit: dict[str, Any], keys: tuple[str, ...]) -> str:
    return next((hit[key] for key in keys if isinstance(hit.get(key), str) and hit[key]), "")


def _cell(value: Any) -> Markup:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return element("td", _plain(value), class_="number" if is_number else None)


def _plain(value: Any) -> str:
    return one_line(_text(value), CELL)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "…"
