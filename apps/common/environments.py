"""The environments that people can choose from.

The built-in ones are in the trainer; a test checks these facts against them. Others run on servers that the operator lists in
SERVED_ENVIRONMENTS; their details are only known there.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings


@dataclass(frozen=True)
class EnvironmentFacts:
    """An environment's subject, task levels, and scripted policies."""

    summary: str
    levels: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()


WORKERS = ("expert", "hasty", "careless", "demonstrator")
BUILT_IN: Mapping[str, EnvironmentFacts] = {
    "office": EnvironmentFacts("mail, files, sheets, calendar and chat", ("L1", "L2", "L3", "L4", "L5"), WORKERS),
    "search": EnvironmentFacts("questions over an encyclopedia", ("L1", "L2", "L3"), WORKERS),
    "code": EnvironmentFacts("small functions to repair", ("L1", "L2", "L3"), WORKERS),
    "qa": EnvironmentFacts("one question, one answer", ("L1", "L2", "L3"), WORKERS),
}
ENVIRONMENTS: Mapping[str, EnvironmentFacts] = {
    **BUILT_IN,
    **{name: EnvironmentFacts("on a server") for name in settings.SERVED_ENVIRONMENTS},
}
CHOICES: list[tuple[str, str]] = [
    (name, f"{name}: {environment.summary}") for name, environment in ENVIRONMENTS.items()
]
SCRIPTS: tuple[str, ...] = tuple(
    dict.fromkeys(script for environment in ENVIRONMENTS.values() for script in environment.scripts)
)
LEVELS: tuple[str, ...] = tuple(
    sorted({level for environment in ENVIRONMENTS.values() for level in environment.levels})
)
