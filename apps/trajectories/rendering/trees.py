"""JSON as a collapsible tree of bounded size: everything beyond the budget is a link that fetches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.common.markup import Markup, element, joined
from apps.trajectories.rendering.text import legible, one_line

NODES = 250
CHILDREN = 60
DEPTH = 12
STRING = 300
KEY = 100

More = Callable[[str, int], str]
"""The address of the rest of the value at a path, from a child or character on."""


def render(value: Any, more: More, *, path: str = "", start: int = 0) -> Markup:
    """A tree of `value`, which is at `path` in the whole; for an object or list, its children from `start` on."""
    tree = _Tree(more)
    if isinstance(value, dict | list):
        return element("ul", *tree.children(value, path, start, 0), class_="tree")
    return element("ul", element("li", tree.scalar(value, path)), class_="tree")


class _Tree:
    def __init__(self, more: More) -> None:
        self.more = more
        self.budget = NODES

    def children(self, value: dict[str, Any] | list[Any], path: str, start: int, depth: int) -> list[Markup]:
        has_names = isinstance(value, dict)
        items: list[tuple[str, Any]] = (
            [(str(key), child) for key, child in value.items()]
            if isinstance(value, dict)
            else [(str(i), child) for i, child in enumerate(value)]
        )
        parts: list[Markup] = []
        for i in range(start, len(items)):
            if i - start >= CHILDREN or self.budget <= 0:
                parts.append(element("li", self.link(path, i, f"{len(items) - i:,} more")))
                break
            key, child = items[i]
            parts.append(self.item(key, child, f"{path}.{i}".lstrip("."), depth, named=has_names))
        return parts

    def item(self, key: str, value: Any, path: str, depth: int, *, named: bool) -> Markup:
        self.budget -= 1
        name = element("span", one_line(key, KEY), class_="key" if named else "place")
        if not isinstance(value, dict | list):
            return element("li", name, self.scalar(value, path))
        if not value:
            return element("li", name, element("span", "{}" if isinstance(value, dict) else "[]", class_="nothing"))
        if depth >= DEPTH or self.budget <= 0:
            return element("li", name, _size(value), " ", self.link(path, 0, "Show"))
        summary = element("summary", name, _size(value))
        inner = element("ul", *self.children(value, path, 0, depth + 1))
        return element("li", element("details", summary, inner, open=depth < 1 or (depth < 3 and len(value) <= 12)))

    def scalar(self, value: Any, path: str) -> Markup:
        if isinstance(value, str):
            shown = element("span", _text(value), class_="string")
            if len(value) <= STRING:
                return shown
            return joined([shown, " ", self.link(path, STRING, f"{len(value) - STRING:,} more characters")])
        is_word = value is None or isinstance(value, bool)
        return element("span", json_scalar(value), class_="word" if is_word else "number")

    def link(self, path: str, start: int, text: str) -> Markup:
        return element("a", text, class_="more inline", data_more=True, href=self.more(path, start))


def _text(value: str) -> str:
    return legible(value[:STRING])


def _size(value: dict[str, Any] | list[Any]) -> Markup:
    count = len(value)
    noun = ("field" if isinstance(value, dict) else "item") + ("" if count == 1 else "s")
    return element("span", f"{count:,} {noun}", class_="count")


def json_scalar(value: Any) -> str:
    """A value other than text, as JSON."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        text = repr(value)
        return text if len(text) <= STRING else f"{text[: STRING - 1]}…"
    except ValueError:  # an integer with thousands of digits
        return f"a number of {value.bit_length():,} bits"


def child(value: Any, path: str) -> Any:
    """The value at a path of positions ("0.3.2": third child of the fourth child of the first). Raises LookupError."""
    for position in path.split(".") if path else []:
        if not position.isdigit() or not isinstance(value, dict | list):
            raise LookupError(path)
        children = list(value.values()) if isinstance(value, dict) else value
        value = children[int(position)]
    return value
