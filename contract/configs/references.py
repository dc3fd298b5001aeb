"""What a config refers to by the id that Retrace gave it: the policies behind learned reward terms."""

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
    """Policies can stand there."""
    policy: str
    """The id."""
    term: RewardTerm


def references_of(config: TrainingConfig) -> list[Reference]:
    """In the order of the terms."""
    if not isinstance(config, OnlineConfig):
        return []
    return [
        Reference(f"rewards.terms[{index}].policy", source, policy, term)
        for index, term in enumerate(config.rewards.terms)
        if (source := policy_source(type(term))) and (policy := str(getattr(term, "policy", "")))
    ]


def policy_source(term: type[RewardTerm]) -> Source | None:
    """The kind of policies that a term's class needs; None where it needs none."""
    return next((field.source for field in fields_of(term) if field.name == "policy"), None)


def with_terms(config: Online, terms: Sequence[RewardTerm]) -> Online:
    """The same run with other terms."""
    return config.replaced(rewards=config.rewards.replaced(terms=tuple(terms)))
