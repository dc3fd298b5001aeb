"""What a run may be told that learns from its own rollouts."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from trainer.configs.rewards import RewardsConfig
from trainer.configs.rollouts import Budget, Sampling
from trainer.configs.training import TrainingConfig
from trainer.validation import AtLeast, Checked, Count, InvalidField, NonNegative, Positive, Whole


@dataclass(frozen=True)
class PracticeConfig(Checked):
    """Which tasks to practise on: drawn by the environment from its training split, or from a file."""

    environment: str = "office"
    """A built-in environment. Its held-out tasks measure progress, so none of them is ever practised."""
    file: str | None = None
    """A JSON Lines file with one task a line instead; held-out ones are refused."""
    levels: tuple[str, ...] = ()
    """Levels to draw from in turn, for practice and for evaluation; empty is all of them."""
    count: Count = 1000
    """How many different tasks to draw."""
    seed: Whole = 0
    """Which ones."""


@dataclass(frozen=True)
class OnlineConfig(TrainingConfig):
    """What GRPO and RLOO share. One step plays `optimizer.batch_size` × `gradient_accumulation` rollouts on each process."""

    tasks: PracticeConfig = field(default_factory=PracticeConfig)
    """What to practise on."""
    samples: Annotated[int, AtLeast(2)] = 8
    """Rollouts of each task in a step: the group that each is compared with. Must divide the rollouts of a step."""
    sampling: Sampling = field(default_factory=lambda: Sampling(max_new_tokens=256))
    """How turns are sampled; `max_new_tokens` is for one turn."""
    budget: Budget = field(default_factory=Budget)
    """When an episode is cut short."""
    rewards: RewardsConfig = field(default_factory=RewardsConfig)
    """What counts as good."""
    beta: NonNegative = 0.0
    """Weight of the KL divergence from the base policy; 0 needs no reference model."""
    epsilon: Positive = 0.2
    """How far the probability of a token or sequence may fall, as a share, before its gradient is cut."""
    epsilon_high: Positive = 0.28
    """The same for a rise; above `epsilon` ("clip higher") unlikely tokens have room to become likely."""
    updates: Count = 1
    """Optimizer steps on the same rollouts. With 1 nothing is ever clipped."""
    resample: Whole = 0
    """How often, at most, tasks whose rollouts all got the same reward are exchanged for others within a step. With 0 they stay, without a gradient."""
    held_out: Whole = 60
    """Held-out tasks attempted at each evaluation; 0 evaluates nothing."""
    kept: Whole = 2
    """Tasks of each step whose rollouts are kept in `rollouts/`."""

    def check(self) -> None:
        rollouts = self.optimizer.batch_size * self.optimizer.gradient_accumulation
        if rollouts % self.samples:
            raise InvalidField(
                "samples",
                f"{self.samples} does not divide the {rollouts} rollouts of a step (optimizer.batch_size × gradient_accumulation)",
            )
        if self.sampling.temperature == 0:
            raise InvalidField(
                "sampling.temperature", "got 0, expected above 0: rollouts that are all alike teach nothing"
            )
        if self.model.scratch is not None:
            raise InvalidField(
                "model.scratch", "a policy without training reaches no reward", advice="Give model.path."
            )


@dataclass(frozen=True)
class GrpoConfig(OnlineConfig):
    """Group relative policy optimization."""

    kind: Literal["grpo"] = "grpo"
    loss: Literal["dapo", "dr_grpo", "grpo"] = "dapo"
    """How tokens are averaged: over all of a step's (dapo), over a constant (dr_grpo), or within each rollout first (grpo)."""
    scale: Literal["group", "batch", "none"] = "group"
    """What advantages are divided by: the spread of their group's rewards, of the whole step's, or nothing."""
    credit: Literal["trajectory", "turn"] = "trajectory"
    """Whether all of a rollout's tokens share its advantage, or each turn has one of its own, from the rewards that came after it."""


@dataclass(frozen=True)
class RlooConfig(OnlineConfig):
    """REINFORCE with a leave-one-out baseline."""

    kind: Literal["rloo"] = "rloo"
    normalize: bool = False
    """Bring the advantages of a step to mean 0 and spread 1."""
