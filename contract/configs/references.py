"""Policies that a config refers to by their id in Retrace: those behind learned reward terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from contract.configs.declaration import Source
from contract.configs.fields import fields_of
from contract.configs.online import OnlineConfig
from contract.configs.rewards import RewardTerm
from contract.configs.training import TrainingConfig

Online = TypeVar("Online", bound=OnlineConfig)


class Reference(NamedTuple):
    """A term that needs a policy."""

    field: str
    """Its dotted path in the config."""
    source: Source
    """Only reward terms that take a policy have one."""
    policy: str
    """The id."""
    term: RewardTerm


def references_of(config: TrainingConfig) -> list[Reference]:
    """The references, in the order of the terms."""
    if not isinstance(config, OnlineConfig):
        return []
    return [
        Reference(f"rewards.terms[{index}].policy", source, policy, term)
        for index, term in enumerate(config.rewards.terms)
        if (source := policy_source(type(term))) and (policy := str(getattr(term, "policy", "")))
    ]


def policy_source(term: type[RewardTerm]) -> Source | None:
    """The kind of policies that a term's class needs; None if it needs none."""
    return next((field.source for field in fields_of(term) if field.name == "policy"), None)


def with_terms(config: Online, terms: Sequence[RewardTerm]) -> Online:
    """A copy of the config with other reward terms."""
    return config.replaced(rewards=config.rewards.replaced(terms=tuple(terms)))
