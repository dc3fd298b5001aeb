"""Untrusted text between tags of a prompt."""

import re
from functools import cache


def inside(text: str, *tags: str) -> str:
    """`text` in which none of these tags begins or ends, nor anything that a model may take for one, such as `</ RUN>`."""
    return _pattern(tags).sub(r"<\\", text)


@cache
def _pattern(tags: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"<(?=[\s/]{{0,9}}(?:{'|'.join(tags)})\b)", re.IGNORECASE)
