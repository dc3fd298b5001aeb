"""Environments in which policies act, found by name."""

import os

from trainer.environments.code import Code
from trainer.environments.office import Office
from trainer.environments.protocol import Environment
from trainer.environments.qa import Qa
from trainer.environments.search import Search
from trainer.environments.served import served_at
from trainer.failures import ConfigFailure

ENVIRONMENTS: dict[str, type[Environment]] = {
    environment.name: environment for environment in (Office, Search, Code, Qa)
}
SERVED_VARIABLE = "SERVED_ENVIRONMENTS"
"""The variable of this process's environment that names environments on servers: "shop=http://10.0.0.7:9000 maze=…"."""


def environment_named(name: str) -> type[Environment]:
    """The class of an environment: a built-in one, or one configured by the operator of this process. Raises ConfigFailure.

    Addresses from tasks are never used: tasks come from untrusted files, which would then decide what to connect to.
    """
    if name in ENVIRONMENTS:
        return ENVIRONMENTS[name]
    addresses = dict(pair.split("=", 1) for pair in os.environ.get(SERVED_VARIABLE, "").split() if "=" in pair)
    if name in addresses:
        return served_at(addresses[name], name)
    names = " or ".join(map(repr, sorted({*ENVIRONMENTS, *addresses})))
    raise ConfigFailure(
        f"environment: got {name!r}, expected {names}",
        advice=f"Name a server of your own in {SERVED_VARIABLE}, such as {SERVED_VARIABLE}=shop=http://10.0.0.7:9000.",
    )
