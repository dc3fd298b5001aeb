"""Renders terminal output: ANSI colors become classes; every other control sequence is dropped."""

from __future__ import annotations

import re

from apps.common.markup import Markup, element, joined
from apps.common.markup import text as as_text
from apps.trajectories.rendering.text import legible

# CSI … final byte, OSC … BEL or ST, or a two-byte escape. Lengths are bounded, so an unterminated one costs nothing.
_SEQUENCE = re.compile(
    r"\x1b(?:\[([0-9;:?]{0,64})[ -/]{0,4}([@-~])|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)|[()][0-9A-B]|[=>78cDEHM])"
)
_WRAPPED = re.compile(r"\s*<returncode>(-?\d{1,5})</returncode>\s*(?:<output>\n?)?")
_STYLES = {1: "bold", 2: "dim", 3: "italic", 4: "under", 7: "reverse"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("under",), 27: ("reverse",)}


def render(text: str) -> Markup:
    """Markup for terminal output: spans with the classes `fg-0` … `fg-15`, `bg-0` … `bg-15`, bold, dim, italic, under, reverse."""
    if "\x1b" not in text:
        return as_text(legible(text))
    parts: list[Markup] = []
    style: dict[str, str] = {}
    position = 0
    for match in _SEQUENCE.finditer(text):
        _write(parts, text[position : match.start()], style)
        position = match.end()
        if match[2] == "m":
            _apply(style, match[1])
    _write(parts, text[position:], style)
    return joined(parts)


def unwrap(text: str) -> tuple[str, int | None]:
    """The output inside the `<returncode>`/`<output>` tags that some agents are shown, and the exit code."""
    match = _WRAPPED.match(text[:200])
    if match is None:
        return text, None
    body = text[match.end() :].rstrip()
    return body.removesuffix("</output>").rstrip("\n"), int(match[1])


def _write(parts: list[Markup], text: str, style: dict[str, str]) -> None:
    if not text:
        return
    shown = as_text(legible(text))
    parts.append(element("span", shown, class_=" ".join(style.values())) if style else shown)


def _apply(style: dict[str, str], codes: str) -> None:
    numbers = [int(code) if code.isdigit() and len(code) < 4 else 0 for code in codes.replace(":", ";").split(";")]
    while numbers:
        code = numbers.pop(0)
        if code == 0:
            style.clear()
        elif code in _STYLES:
            style[_STYLES[code]] = _STYLES[code]
        elif code in _OFF:
            for name in _OFF[code]:
                style.pop(name, None)
        elif code in (38, 48):
            _extended(style, "fg" if code == 38 else "bg", numbers)
        elif code in (39, 49):
            style.pop("fg" if code == 39 else "bg", None)
        else:
            _basic(style, code)


def _basic(style: dict[str, str], code: int) -> None:
    for ground, first, shift in (("fg", 30, 0), ("bg", 40, 0), ("fg", 90, 8), ("bg", 100, 8)):
        if first <= code < first + 8:
            style[ground] = f"{ground}-{code - first + shift}"


def _extended(style: dict[str, str], ground: str, numbers: list[int]) -> None:
    """Handles the arguments of 38 and 48: a palette entry (the first 16 are shown) or a true color (shown as plain text)."""
    mode = numbers.pop(0) if numbers else 0
    if mode == 5 and numbers:
        entry = numbers.pop(0)
        if entry < 16:
            style[ground] = f"{ground}-{entry}"
    elif mode == 2:
        del numbers[:3]
