"""JSON that people know better in another form: rows as a table, hits of a search as a list, mail as a letter."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from apps.trajectories.rendering.text import legible, one_line

ROWS = 40
COLUMNS = 12
CELL = 160
SNIPPET = 400

_LINK = ("url", "link", "href")
_SNIPPET = ("snippet", "description", "summary", "content", "text", "body")


def is_table(value: Any) -> bool:
    """Objects with the same few fields, nearly all of them plain values."""
    if not (isinstance(value, list) and value and all(isinstance(row, dict) and row for row in value[:ROWS])):
        return False
    fields = set(value[0])
    if not 1 < len(fields) <= COLUMNS or any(len(fields ^ set(row)) > len(fields) // 3 for row in value[:ROWS]):
        return False
    cells = [cell for row in value[:ROWS] for cell in row.values()]
    nested = sum(isinstance(cell, dict | list) for cell in cells)
    long = sum(isinstance(cell, str) and len(cell) > CELL for cell in cells)
    return nested * 4 <= len(cells) and long * 6 <= len(cells)


def render_table(rows: list[Any], start: int = 0) -> SafeString:
    """Rows from `start` on, up to ROWS of them."""
    fields = list(dict.fromkeys(str(key) for row in rows[:ROWS] if isinstance(row, dict) for key in row))[:COLUMNS]
    head = "".join(f'<th scope="col">{escape(one_line(field, 60))}</th>' for field in fields)
    body = "".join(
        f"<tr>{''.join(_cell(row.get(field)) for field in fields)}</tr>"
        for row in rows[start : start + ROWS]
        if isinstance(row, dict)
    )
    return mark_safe(f'<div class="cells"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>')


def is_results(value: Any) -> bool:
    """A list of things with a title and an address."""
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(
            isinstance(hit, dict) and isinstance(hit.get("title"), str) and _first(hit, _LINK) for hit in value[:ROWS]
        )
    )


def render_results(hits: list[Any], start: int = 0) -> SafeString:
    """Hits from `start` on: title, address, snippet. Addresses are links only where they lead to the web."""
    parts = []
    for hit in hits[start : start + ROWS]:
        if not isinstance(hit, dict):
            continue
        address, title = _first(hit, _LINK), escape(one_line(str(hit.get("title", "")), CELL))
        shown = f'<span class="address">{escape(one_line(address, CELL))}</span>'
        parts.append(
            f"<li>{_link(address, title)}{shown}<p>{escape(one_line(_first(hit, _SNIPPET), SNIPPET))}</p></li>"
        )
    return mark_safe(f'<ol class="results">{"".join(parts)}</ol>')


def is_mail(value: Any) -> bool:
    """An object with a subject, a body and somebody who sent or gets it."""
    if not isinstance(value, dict):
        return False
    return (
        isinstance(value.get("subject"), str)
        and isinstance(value.get("body"), str)
        and any(key in value for key in ("from", "to", "sender", "recipient", "recipients"))
    )


def render_mail_head(mail: dict[str, Any]) -> SafeString:
    """Every field but the body, which follows as text."""
    rows = "".join(
        f"<dt>{escape(one_line(str(key), 40))}</dt><dd>{escape(_plain(value))}</dd>"
        for key, value in list(mail.items())[:20]
        if key != "body"
    )
    return mark_safe(f'<dl class="mail-head">{rows}</dl>')


def web_link(address: str, words: str) -> SafeString:
    """A link that leaves the page safely; only words where the address is not http, https or mailto."""
    return mark_safe(_link(address, escape(words)))


def _link(address: str, escaped: str) -> str:
    try:
        scheme = urlsplit(address.strip()).scheme.lower()
    except ValueError:
        scheme = ""
    if scheme not in {"http", "https", "mailto"} or len(address) > 2000:
        return f'<span class="title">{escaped}</span>'
    return f'<a class="title" href="{escape(legible(address.strip()))}" target="_blank" rel="noopener nofollow noreferrer">{escaped}</a>'


def _first(hit: dict[str, Any], keys: tuple[str, ...]) -> str:
    return next((hit[key] for key in keys if isinstance(hit.get(key), str) and hit[key]), "")


def _cell(value: Any) -> str:
    name = ' class="number"' if isinstance(value, int | float) and not isinstance(value, bool) else ""
    return f"<td{name}>{escape(_plain(value))}</td>"


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return one_line(value, CELL)
    if value is None:
        return ""
    try:
        return one_line(json.dumps(value, ensure_ascii=False), CELL)
    except (ValueError, RecursionError):
        return "…"
