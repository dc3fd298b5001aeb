"""The policies behind a run's learned reward terms, and the reward formula shown to people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from django.db.models import Q, QuerySet

from apps.accounts.models import Membership
from apps.common.ids import parsed_id
from apps.policies.models import Policy, Publication
from contract.configs import InvalidConfig, InvalidField, RewardsConfig, TrainingConfig
from contract.configs.declaration import Source
from contract.configs.references import references_of
from contract.configs.rewards import OutcomeTerm, RewardTerm, name_of

SOURCE_NAMES: dict[str, str] = {
    "reward_model": "a reward model",
    "process_model": "a process reward model",
    "judge": "a served model",
}
TermKind = Literal["outcome", "environment", "learned"]
"""The outcome itself, another signal from the environment or the transcript, or a model's score."""


@dataclass(frozen=True)
class LearnedReward:
    """One learned reward term of a plan."""

    term: str
    """The term's name in metrics."""
    component: str
    weight: float
    policy: Policy


def candidates(member: Membership, source: Source) -> QuerySet[Policy]:
    """The policies of the workspace that can be used for a term."""
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
    """The learned terms with their policies, limited to those the member may see. Raises InvalidConfig."""
    rewards, problems = [], []
    for reference in references_of(config):
        policy_id = parsed_id(reference.policy)
        policy = candidates(member, reference.source).filter(pk=policy_id).first() if policy_id else None
        if policy is None:
            expected = SOURCE_NAMES[reference.source]
            problems.append(
                InvalidField(
                    reference.field, f"got {reference.policy!r}, expected the id of {expected} in this workspace"
                )
            )
            continue
        term = reference.term
        rewards.append(LearnedReward(name_of(term), str(getattr(term, term.tag)), term.weight, policy))
    if problems:
        raise InvalidConfig(problems)
    return tuple(rewards)


@dataclass(frozen=True)
class FormulaPart:
    """One summand of the total reward, and its segment of a bar that shows how far each can move the total."""

    weight: str
    text: str
    policy: str
    kind: TermKind
    low: str
    high: str
    start: float
    """Start of the segment, in percent."""
    width: float

    @property
    def is_logged_only(self) -> bool:
        return self.width == 0


def formula(rewards: RewardsConfig, learned: Sequence[LearnedReward] = ()) -> list[FormulaPart]:
    """total = weight · term + …, for people. A success moves the total by the outcome's weight, which is therefore the size of its segment."""
    policies = {reward.term: reward.policy.name for reward in learned}
    influences = [term.weight if isinstance(term, OutcomeTerm) else term.influence for term in rewards.terms]
    total = sum(influences) or 1.0
    return [
        FormulaPart(
            weight=f"{term.weight:g}",
            text=term.name or lower_title(term.TITLE),
            policy=policies.get(name_of(term), ""),
            kind=kind_of(type(term)),
            low=f"{term.weight * lowest(term):g}".replace("-", "−"),
            high=f"{term.weight * term.HIGH:g}",
            start=round(100 * sum(influences[:index]) / total, 2),
            width=round(100 * influences[index] / total, 2),
        )
        for index, term in enumerate(rewards.terms)
    ]


def lowest(term: RewardTerm) -> float:
    """The lowest value of the term."""
    return 0.0 if isinstance(term, OutcomeTerm) and term.measure == "success" else term.LOW


def kind_of(term: type[RewardTerm]) -> TermKind:
    if issubclass(term, OutcomeTerm):
        return "outcome"
    return "learned" if term.IS_LEARNED else "environment"


def lower_title(title: str) -> str:
    """A title in the middle of a sentence: "Step cost" becomes "step cost", "LLM judge" stays."""
    return title if title[:2].isupper() else title[:1].lower() + title[1:]
