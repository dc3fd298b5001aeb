"""The environments that policies can act in, as people choose from them.

The built-in worlds live in the trainer; a test holds these facts to them. Others run on servers that whoever operates Retrace has named in
SERVED_ENVIRONMENTS; what they can do is known only there.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings


@dataclass(frozen=True)
class EnvironmentFacts:
    """What it is about, the levels of its tasks, and the scripts that can act in it."""

    about: str
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
CHOICES: list[tuple[str, str]] = [(name, f"{name}: {facts.about}") for name, facts in ENVIRONMENTS.items()]
SCRIPTS: tuple[str, ...] = tuple(dict.fromkeys(script for facts in ENVIRONMENTS.values() for script in facts.scripts))
LEVELS: tuple[str, ...] = tuple(sorted({level for facts in ENVIRONMENTS.values() for level in facts.levels}))
