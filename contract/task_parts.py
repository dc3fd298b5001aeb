"""Tasks of sub-agents, which are parts of another task: the key says of which.

Their chats repeat parts of the whole task, so they're held out, and split into train and test, with it; and sub-agents of other tasks never share
their task, whatever they were asked.
"""

import hashlib
import re
from dataclasses import replace

from contract.trajectory import Task

MARK = "/part-"
KEY_OF_PART = f"^(.+?){MARK}[0-9a-f]{{16}}"
"""Regular expression, for Python and PostgreSQL."""
_PART = re.compile(KEY_OF_PART, re.DOTALL)


def part_of(whole: Task, part: Task) -> Task:
    """The task as part of another one: `<key of the whole>/part-<digest of its own key>`."""
    digest = hashlib.sha256(part.key.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    key = f"{whole_key(whole.key) or whole.key}{MARK}{digest}"
    return replace(part, key=key, environment=whole.environment, held_out=whole.held_out or part.held_out)


def whole_key(key: str) -> str | None:
    """The key of the whole task, in the same environment; None if this task isn't part of another one."""
    match = _PART.match(key)
    return match[1] if match else None
