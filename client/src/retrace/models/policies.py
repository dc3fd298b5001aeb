"""Policies and their publications."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

from retrace.core.request import Progress, address
from retrace.models.answer import Answer, Waitable


class Policy(Answer):
    """A policy: its kind, its origin, its results."""

    id: str
    name: str
    kind: str
    description: str
    base: str | None
    run: str | None  # The training run that produced it.
    location: str
    settings: Any  # Sampling, LoRA, and script parameters.
    report: Any  # Held-out results of its training run.
    champion_of: list[str]  # Environments whose champion it is.
    held_out_played: int
    held_out_succeeded: int
    created_at: datetime
    archived_at: datetime | None


class NewPolicy(TypedDict, total=False):
    """A policy to register. Its fields depend on the kind."""

    kind: Literal["model", "scripted", "endpoint"]
    name: Required[str]
    location: str | None  # A hub id, a folder on the workers, or the model's name on its server.
    script: str | None  # For scripted policies: the script.
    base_url: str | None  # For served models: the address of the OpenAI-compatible server.
    key_variable: str | None  # The workers' environment variable that holds the server's API key.
    description: str | None


class Endpoint(Answer):
    """A model server, or several replicas."""

    id: str
    name: str
    base_url: str
    replicas: list[str]
    key_variable: str
    created_at: datetime


class Champion(Answer):
    """The champion of an environment, since when, and why."""

    id: str
    environment: str
    policy: str
    previous: str | None
    reason: str
    is_rollback: bool
    created_at: datetime


class RollBackChampion(TypedDict, total=False):
    """The environment in which the previous champion is reinstated, and why."""

    environment: Required[str]
    reason: Required[str]
    champion: str | None  # The policy to roll back, if it's still the champion. Default: whichever it is.


class Publication(Waitable):
    """A policy published under a name: its progress, and the canary's result."""

    id: str
    policy: str
    way: str
    name: str  # Its display name: the alias of the live policy, or a folder's name.
    served_name: str
    server: str
    replicas: list[str]
    state: str
    is_rollback: bool
    location: str  # The folder that is served, or that was written.
    canary: Any  # The canary's verdict: distances to the trainer's policy and to the base.
    error: str
    created_at: datetime
    live_at: datetime | None
    ended_at: datetime | None  # When it failed or was taken down.

    @property
    def path(self) -> str:
        return address("/publications/{}", self.id)

    @property
    def is_over(self) -> bool:
        return self.state not in ("waiting", "working")

    @property
    def problem(self) -> str:
        return (self.error or f"The publication is {self.state}.") if self.state in ("refused", "failed") else ""

    @property
    def progress(self) -> Progress:
        return Progress(0, 0, "steps")


class Publish(TypedDict, total=False):
    """How and where to publish a policy."""

    way: Required[Literal["folder", "adapter", "restart"]]
    name: Required[str]  # Its name here; servers know it by `served_name`.
    server: str  # vLLM's address including its version; empty for a folder.
    replicas: Sequence[str]  # Addresses of further servers that should serve the same.
    key_variable: str  # The workers' environment variable that holds the API key.
