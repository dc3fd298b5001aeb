"""Ids of models on the Hugging Face hub, and how they're distinguished from folders."""

import re

_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"
_HUB_ID = re.compile(rf"(?:{_PART}/)?{_PART}")


def is_hub_id(text: str) -> bool:
    """Whether `text` is a hub id, such as `Qwen/Qwen3-0.6B`: `name` or `owner/name`, with the hub's own restrictions.

    A folder starts with `/`, `./` or `../`, so the two can't be confused, whatever the working directory contains.
    """
    return bool(_HUB_ID.fullmatch(text)) and "--" not in text and ".." not in text and not text.endswith(".git")
