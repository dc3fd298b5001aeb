"""Worlds in which policies act, found by name."""

from trainer.environments.code import Code
from trainer.environments.office import Office
from trainer.environments.protocol import Environment
from trainer.environments.qa import Qa
from trainer.environments.search import Search
from trainer.failures import ConfigFailure

ENVIRONMENTS: dict[str, type[Environment]] = {each.name: each for each in (Office, Search, Code, Qa)}


def environment_named(name: str) -> type[Environment]:
    """The class of a built-in environment. Raises ConfigFailure."""
    try:
        return ENVIRONMENTS[name]
    except KeyError:
        raise ConfigFailure(
            f"environment: got {name!r}, expected {' or '.join(map(repr, sorted(ENVIRONMENTS)))}"
        ) from None
