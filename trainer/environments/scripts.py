"""Scripted policies: a generator that yields calls and is sent their results."""

import random
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from contract.trajectory import Task
from contract.values import JsonObject


class Call(NamedTuple):
    """A tool call, the thought behind it, and the text of its message."""

    tool: str
    arguments: JsonObject
    thought: str = ""
    say: str = ""


Script = Generator[Call, Any, str]
"""Yields calls, is sent their decoded results, and returns the final message."""

ScriptFactory = Callable[[Task, random.Random], Script]
