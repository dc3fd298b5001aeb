"""The displayed kinds of steps: each has a hue, a letter, and a label."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class Kind(NamedTuple):
    """`slug` names the hue in the style sheets (`data-kind`)."""

    slug: str
    letter: str
    label: str


SAY = Kind("say", "S", "Says")
THINK = Kind("think", "T", "Thinks")
READ = Kind("read", "R", "Reads")
SEARCH = Kind("search", "Q", "Searches")
WRITE = Kind("write", "W", "Changes")
RUN = Kind("run", "$", "Runs")
BROWSE = Kind("browse", "B", "Browses")
FINISH = Kind("finish", "F", "Finishes")
OTHER = Kind("other", "C", "Calls")

KINDS = (SAY, THINK, READ, SEARCH, WRITE, RUN, BROWSE, FINISH, OTHER)
BY_SLUG = {kind.slug: kind for kind in KINDS}

# The first known word in a tool's name decides. Order matters only for names with several known words.
_WORDS = {
    **dict.fromkeys(
        (
            "bash",
            "shell",
            "sh",
            "terminal",
            "run",
            "exec",
            "execute",
            "python",
            "command",
            "cmd",
            "code",
            "sql",
            "ipython",
            "calculate",
            "make",
            "pip",
            "npm",
            "git",
            "pytest",
            "cd",
        ),
        RUN,
    ),
    **dict.fromkeys(
        (
            "read",
            "view",
            "open",
            "cat",
            "get",
            "show",
            "ls",
            "head",
            "tail",
            "list",
            "fetch",
            "load",
            "inspect",
            "scroll",
            "nl",
            "sed",
        ),
        READ,
    ),
    **dict.fromkeys(("search", "find", "grep", "query", "lookup", "look", "rg", "locate"), SEARCH),
    **dict.fromkeys(
        (
            "write",
            "edit",
            "create",
            "insert",
            "replace",
            "str",
            "update",
            "delete",
            "remove",
            "add",
            "append",
            "apply",
            "patch",
            "book",
            "cancel",
            "modify",
            "send",
            "set",
            "move",
            "rename",
            "exchange",
            "return",
            "touch",
            "rm",
            "mv",
            "cp",
            "mkdir",
            "echo",
        ),
        WRITE,
    ),
    **dict.fromkeys(
        (
            "browse",
            "browser",
            "click",
            "goto",
            "navigate",
            "visit",
            "web",
            "page",
            "type",
            "press",
            "screenshot",
            "computer",
            "url",
        ),
        BROWSE,
    ),
    **dict.fromkeys(
        ("submit", "finish", "done", "final", "answer", "exit", "end", "transfer", "complete", "stop"), FINISH
    ),
    **dict.fromkeys(("think", "plan", "reflect"), THINK),
}
_SPLIT = re.compile(r"[^a-z]+")
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])")


@lru_cache(maxsize=4096)
def kind_of(kind: str, tool: str) -> Kind:
    """The kind of a step, from its stored kind and the names of its tools."""
    if kind == "tool":
        for word in _SPLIT.split(_HUMPS.sub("_", tool).lower()):
            if word in _WORDS:
                return _WORDS[word]
        return OTHER
    return {"reasoning": THINK, "final": FINISH}.get(kind, SAY)
