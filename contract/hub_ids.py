"""How a model on the Hugging Face hub is named, and how that is told from a folder."""

import re

_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"
_HUB_ID = re.compile(rf"(?:{_PART}/)?{_PART}")


def is_hub_id(text: str) -> bool:
    """Whether `text` is a hub id, such as `Qwen/Qwen3-0.6B`: `name` or `owner/name`, as the hub itself restricts them.

    A folder is written with `/`, `./` or `../` at its beginning, so no text means both, whatever lies in the working directory.
    """
    return bool(_HUB_ID.fullmatch(text)) and "--" not in text and ".." not in text and not text.endswith(".git")
