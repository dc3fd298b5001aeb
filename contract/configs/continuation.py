"""Config of a continuation: a policy takes over in the middle of an episode."""

from typing import ClassVar, Literal

from contract.configs.declaration import Config, Count, Seed, Whole
from contract.configs.rollouts import Budget, PolicyConfig


class ContinuationConfig(Config):
    """Resume a recorded episode at a step: sample the policy's actions there, or let it continue after a given action."""

    tag: ClassVar[str] = "kind"

    policy: PolicyConfig
    """The policy that takes over. Scripts can't: they play an episode from its beginning."""
    kind: Literal["continuation"] = "continuation"
    file: str = "trajectory.jsonl"
    """The recorded episode, in rich form, alone in its file."""
    step: Whole = 0
    """The turn before which the policy takes over."""
    action: str | None = None
    """A JSON file with the assistant message to execute first and continue from; None only samples actions."""
    count: Count = 4
    """Number of actions to sample."""
    budget: Budget = Budget()
    """When the episode is cut short; its step limit includes the steps before the takeover."""
    output: str = "continuation.jsonl"
    """File for the sampled actions or the new trajectory, one per line."""
    seed: Seed = 0
    """Seed for sampling."""
