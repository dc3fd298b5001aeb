"""Instances of SWE-bench, which agents' own logs name and describe each in its way."""

from __future__ import annotations

import re

INSTANCE = re.compile(r"[\w.-]+__[\w.-]+-\d+")
_ISSUE = re.compile(
    r"\bISSUE:\s*\n(.*?)\n\s*INSTRUCTIONS:|<pr_description>\s*(?:Consider the following PR description:\s*)?(.*?)</pr_description>",
    re.DOTALL,
)


def issue_of(prompt: str) -> str:
    """The issue to solve, out of the prompt that wraps it; the whole prompt where no wrapping is known."""
    found = _ISSUE.search(prompt)
    return (found[1] or found[2]).strip() if found and (found[1] or found[2]) else prompt


def instance_environment(instance: str) -> str:
    """Instances such as `owner__repository-123` are the same task in every agent's logs."""
    return "swe-bench" if INSTANCE.fullmatch(instance) else "swe-agent"
