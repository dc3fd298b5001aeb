"""Files that others read while they're written: they find the old one or the new one, never half of either."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under another name beside it, and rename that. One writer at a time. Raises OSError."""
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(content.encode() if isinstance(content, str) else content)
    os.replace(part, path)
