"""SWE-bench instances, which each agent's logs name and describe differently."""

from __future__ import annotations

import re

_NAME = re.compile(r"[\w.-]+")
_ISSUE = re.compile(r"\bISSUE:\Z")


def issue_of(prompt: str) -> str:
    """The issue to solve, extracted from its prompt; the whole prompt if its template is unknown."""
    return _between_lines(prompt) or _in_tags(prompt) or prompt


def _between_lines(prompt: str) -> str:
    """The text between a line that ends in "ISSUE:" and one that begins with "INSTRUCTIONS:". Each line is examined once."""
    lines = prompt.split("\n")
    begin = next((at for at, line in enumerate(lines) if _ISSUE.search(line.rstrip())), len(lines))
    rest = range(begin + 1, len(lines))
    end = next((at for at in rest if lines[at].lstrip().startswith("INSTRUCTIONS:")), begin)
    return "\n".join(lines[begin + 1 : end]).strip()


def _in_tags(prompt: str) -> str:
    _, _, rest = prompt.partition("<pr_description>")
    issue, end, _ = rest.partition("</pr_description>")
    return issue.strip().removeprefix("Consider the following PR description:").strip() if end else ""


def instance_environment(instance: str) -> str:
    """The environment of an instance: `owner__repository-123` is the same task in every agent's logs."""
    return "swe-bench" if _is_instance(instance) else "swe-agent"


def _is_instance(name: str) -> bool:
    """Whether a name looks like `django__django-11099`. A single regex would backtrack over combinations of many dashes and underscores."""
    repository, _, number = name.rpartition("-")
    return number.isdecimal() and "__" in repository[1:-1] and _NAME.fullmatch(repository) is not None
