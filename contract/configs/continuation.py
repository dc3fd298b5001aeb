"""What a policy that takes over in the middle of an episode may be told."""

from typing import ClassVar, Literal

from contract.configs.declaration import Config, Count, Seed, Whole
from contract.configs.rollouts import Budget, PolicyConfig


class ContinuationConfig(Config):
    """A policy stands where a recorded episode stood: what would it do there, or how would it go on after a given action?"""

    tag: ClassVar[str] = "kind"

    policy: PolicyConfig
    """Who takes over. Scripts cannot: they play an episode from its beginning."""
    kind: Literal["continuation"] = "continuation"
    file: str = "trajectory.jsonl"
    """The episode, in rich form, alone in its file."""
    step: Whole = 0
    """Before which turn to take over."""
    action: str | None = None
    """A JSON file with the assistant message to do there first, and go on from; None samples actions and does none."""
    count: Count = 4
    """Actions to sample."""
    budget: Budget = Budget()
    """When going on is cut short; its steps count those before, too."""
    output: str = "continuation.jsonl"
    """Where the sampled actions or the new trajectory go, one a line."""
    seed: Seed = 0
    """Fixes what is sampled."""
