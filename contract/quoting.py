"""Quoting untrusted text in messages."""

MAX_LENGTH = 300


def legible(text: str, max_length: int = MAX_LENGTH) -> str:
    r"""`text` as it may be quoted in an error: on one line, every character visible (`\x00`, `\ud800`, `\u202e`), at most `max_length` characters."""
    shown = " ".join(text[: 4 * max_length].split())
    if not shown.isprintable():
        shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown)
    return shown if len(shown) <= max_length else f"{shown[: max_length - 1]}…"
