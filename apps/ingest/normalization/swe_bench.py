"""Instances of SWE-bench, which agents' own logs name and describe each in its way."""

from __future__ import annotations

import re

_NAME = re.compile(r"[\w.-]+")
_ISSUE = re.compile(r"\bISSUE:\Z")


def issue_of(prompt: str) -> str:
    """The issue to solve, out of the prompt that wraps it; the whole prompt where no wrapping is known."""
    return _between_lines(prompt) or _in_tags(prompt) or prompt


def _between_lines(prompt: str) -> str:
    """What stands between a line that ends in "ISSUE:" and one that begins with "INSTRUCTIONS:". Each line is looked at once."""
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
    """Instances such as `owner__repository-123` are the same task in every agent's logs."""
    return "swe-bench" if _is_instance(instance) else "swe-agent"


def _is_instance(name: str) -> bool:
    """Whether a name is spelled like `django__django-11099`. One pattern for all of it would try each of many dashes and underscores with each other."""
    repository, _, number = name.rpartition("-")
    return number.isdecimal() and "__" in repository[1:-1] and _NAME.fullmatch(repository) is not None
