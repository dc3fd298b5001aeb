"""The policies behind a run's learned reward terms, and the formula that people read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q, QuerySet

from apps.accounts.models import Membership
from apps.policies.models import Policy, Publication
from contract.configs import InvalidConfig, InvalidField, RewardsConfig, TrainingConfig
from contract.configs.declaration import Source
from contract.configs.references import references_of
from contract.configs.rewards import RewardTerm, name_of

WORDS: dict[str, str] = {
    "reward_model": "a reward model",
    "process_model": "a process reward model",
    "judge": "a served model",
}


@dataclass(frozen=True)
class LearnedReward:
    """One learned term of a plan."""

    term: str
    """The term's name in curves."""
    component: str
    weight: float
    policy: Policy


def candidates(member: Membership, source: Source) -> QuerySet[Policy]:
    """The policies of the workspace that can stand behind a term."""
    policies = Policy.objects.visible_to(member).filter(archived_at=None).defer("report").order_by("-id")
    match source:
        case "reward_model":
            return policies.filter(kind=Policy.Kind.REWARD_MODEL)
        case "process_model":
            return policies.filter(kind=Policy.Kind.PROCESS_MODEL)
        case "judge":
            published = Publication.objects.live().exclude(endpoint=None).values("policy")
            return policies.filter(Q(kind=Policy.Kind.ENDPOINT) | Q(kind=Policy.Kind.MODEL, pk__in=published))
        case _:
            return policies.none()


def learned_rewards(config: TrainingConfig, member: Membership) -> tuple[LearnedReward, ...]:
    """The learned terms with their policies, found within what the member may see. Raises InvalidConfig."""
    rewards, problems = [], []
    for reference in references_of(config):
        policy = candidates(member, reference.source).filter(pk__in=_uuids(reference.policy)).first()
        if policy is None:
            words = WORDS[reference.source]
            problems.append(
                InvalidField(reference.field, f"got {reference.policy!r}, expected the id of {words} in this workspace")
            )
            continue
        term = reference.term
        rewards.append(LearnedReward(name_of(term), str(getattr(term, term.tag)), term.weight, policy))
    if problems:
        raise InvalidConfig(problems)
    return tuple(rewards)


class FormulaPart(NamedTuple):
    """One summand of the total."""

    weight: str
    words: str
    policy: str
    is_logged_only: bool


def formula(rewards: RewardsConfig, learned: Sequence[LearnedReward] = ()) -> list[FormulaPart]:
    """total = weight · term + …, for people."""
    policies = {reward.term: reward.policy.name for reward in learned}
    return [_part(term, policies.get(name_of(term), "")) for term in rewards.terms]


def _part(term: RewardTerm, policy: str) -> FormulaPart:
    return FormulaPart(f"{term.weight:g}", term.name or term.TITLE.lower(), policy, term.weight == 0)


def _uuids(text: str) -> list[UUID]:
    """The id that `text` is; none where it is something else."""
    try:
        return [UUID(text)]
    except ValueError:
        return []
