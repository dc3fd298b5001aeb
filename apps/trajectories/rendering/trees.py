"""JSON as a collapsible tree. A tree of any size costs the same: what is beyond its budget is a link that fetches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from apps.trajectories.rendering.text import legible, one_line

NODES = 250
CHILDREN = 60
DEPTH = 12
STRING = 300
KEY = 100

More = Callable[[str, int], str]
"""The escaped address that shows more: of the value at a path, from a child or character on."""


def render(value: Any, more: More, *, path: str = "", start: int = 0) -> SafeString:
    """A tree of `value`, which sits at `path` of the whole; of an object or list the children from `start` on."""
    tree = _Tree(more)
    if isinstance(value, dict | list):
        return mark_safe(f'<ul class="tree">{tree.children(value, path, start, 0)}</ul>')
    return mark_safe(f'<ul class="tree"><li>{tree.scalar(value, path)}</li></ul>')


class _Tree:
    def __init__(self, more: More) -> None:
        self.more = more
        self.budget = NODES

    def children(self, value: dict[str, Any] | list[Any], path: str, start: int, depth: int) -> str:
        named = isinstance(value, dict)
        items: list[tuple[str, Any]] = (
            [(str(key), child) for key, child in value.items()]
            if isinstance(value, dict)
            else [(str(i), child) for i, child in enumerate(value)]
        )
        parts: list[str] = []
        for i in range(start, len(items)):
            if i - start >= CHILDREN or self.budget <= 0:
                parts.append(f"<li>{self.link(path, i, f'{len(items) - i:,} more')}</li>")
                break
            key, child = items[i]
            parts.append(self.item(key, child, f"{path}.{i}".lstrip("."), depth, named=named))
        return "".join(parts)

    def item(self, key: str, value: Any, path: str, depth: int, *, named: bool) -> str:
        self.budget -= 1
        name = f'<span class="{"key" if named else "place"}">{escape(one_line(key, KEY))}</span>'
        if not isinstance(value, dict | list):
            return f"<li>{name}{self.scalar(value, path)}</li>"
        if not value:
            return f'<li>{name}<span class="nothing">{"{}" if isinstance(value, dict) else "[]"}</span></li>'
        summary = f"<summary>{name}{_size(value)}</summary>"
        if depth >= DEPTH or self.budget <= 0:
            return f"<li>{name}{_size(value)} {self.link(path, 0, 'Show')}</li>"
        opened = " open" if depth < 1 or (depth < 3 and len(value) <= 12) else ""
        return f"<li><details{opened}>{summary}<ul>{self.children(value, path, 0, depth + 1)}</ul></details></li>"

    def scalar(self, value: Any, path: str) -> str:
        if isinstance(value, str):
            text = escape(_text(value))
            rest = (
                f" {self.link(path, STRING, f'{len(value) - STRING:,} more characters')}" if len(value) > STRING else ""
            )
            return f'<span class="string">{text}</span>{rest}'
        if value is None or isinstance(value, bool):
            return f'<span class="word">{json_scalar(value)}</span>'
        return f'<span class="number">{escape(json_scalar(value))}</span>'

    def link(self, path: str, start: int, words: str) -> str:
        return f'<a class="more inline" data-more href="{self.more(path, start)}">{words}</a>'


def _text(value: str) -> str:
    return legible(value[:STRING])


def _size(value: dict[str, Any] | list[Any]) -> str:
    count = len(value)
    noun = ("field" if isinstance(value, dict) else "item") + ("" if count == 1 else "s")
    return f'<span class="count">{count:,} {noun}</span>'


def json_scalar(value: Any) -> str:
    """A value that is not text, as JSON spells it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        return repr(value)[:STRING]
    except ValueError:  # an integer of thousands of digits
        return f"a number of {value.bit_length():,} bits"


def child(value: Any, path: str) -> Any:
    """The value at a path of positions ("0.3.2": third child of the fourth child of the first). Raises LookupError."""
    for position in path.split(".") if path else []:
        if not position.isdigit() or not isinstance(value, dict | list):
            raise LookupError(path)
        children = list(value.values()) if isinstance(value, dict) else value
        value = children[int(position)]
    return value
