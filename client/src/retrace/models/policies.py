"""Policies, and where they are published."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

from retrace.core.request import Progress, address
from retrace.models.answer import Answer, Waitable


class Policy(Answer):
    """A policy: what it is, what it was made from, how it does."""

    id: str
    name: str
    kind: str
    description: str
    base: str | None
    run: str | None  # The training run that made it.
    location: str
    settings: Any  # Sampling, LoRA and script parameters.
    report: Any  # What its training run measured on held-out data.
    champion_of: list[str]  # The environments that it is the champion of.
    held_out_played: int
    held_out_succeeded: int
    created_at: datetime


class NewPolicy(TypedDict, total=False):
    """A policy to register. Which fields count depends on its kind."""

    kind: Literal["model", "scripted", "endpoint"]
    name: Required[str]
    location: str | None  # A hub id, a folder on the workers, or the model's name on its server.
    script: str | None  # Of a scripted rule.
    base_url: str | None  # Of a served model: the address of its OpenAI-compatible server.
    key_variable: str | None  # The workers' environment variable with the server's API key.
    description: str | None


class Endpoint(Answer):
    """A server of models, or several that serve the same."""

    id: str
    name: str
    base_url: str
    replicas: list[str]
    key_variable: str
    created_at: datetime


class Champion(Answer):
    """Which policy is the champion of an environment, since when, and why."""

    id: str
    environment: str
    policy: str
    previous: str | None
    reason: str
    is_rollback: bool
    created_at: datetime


class RollBackChampion(TypedDict):
    """Where the champion before the current one becomes champion again, and why."""

    environment: str
    reason: str


class Publication(Waitable):
    """A policy under a name: how far it is, and what the canary found."""

    id: str
    policy: str
    way: str
    name: str  # What people call it: an alias of what is live, or a folder's name.
    served_name: str
    server: str
    replicas: list[str]
    state: str
    is_rollback: bool
    location: str  # The folder that is served or was written.
    canary: Any  # The verdict: distances to the trainer's policy and to the base.
    error: str
    created_at: datetime
    live_at: datetime | None
    ended_at: datetime | None  # When it failed, or ceased to answer.

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
    name: Required[str]  # What it's called here; servers know it by `served_name`.
    server: str  # vLLM's address with its version; none for a folder.
    replicas: Sequence[str]  # Addresses of further servers that are to serve the same.
    key_variable: str  # The workers' environment variable with the API key.
