"""What online training may be told: a run that learns from rollouts made during it."""

from typing import Annotated, Literal

from pydantic import Field

from contract.configs.declaration import Config, Count, Positive, Seed, Setting, Words, internal
from contract.configs.errors import InvalidField
from contract.configs.rewards import RewardsConfig
from contract.configs.rollouts import Budget, Sampling
from contract.configs.training import TrainingConfig


class TrainingTasksConfig(Config):
    """Which tasks to learn from: drawn by the environment from its training split, or from a file."""

    environment: Annotated[str, Setting(source="environment", basic=True)] = "office"
    """Where rollouts act. Its held-out tasks measure progress, so none of them is ever learned from."""
    file: Annotated[str | None, internal("files stay on the worker")] = None
    """A JSON Lines file with one task a line instead; held-out ones are refused."""
    levels: Annotated[Words, Setting(source="levels", basic=True)] = ()
    """Levels to draw from in turn, for training and for evaluation; empty is the environment's usual ones."""
    count: Annotated[Count, Setting("Tasks", basic=True)] = 1000
    """How many different tasks to draw."""
    seed: Annotated[Seed, Setting("Task seed")] = 0
    """Which ones."""


class OnlineConfig(TrainingConfig):
    """What GRPO and RLOO share. One step makes `optimizer.batch_size` × `gradient_accumulation` rollouts on each process."""

    tasks: Annotated[TrainingTasksConfig, Setting("Tasks")] = TrainingTasksConfig()
    """What to learn on."""
    played_by: Annotated[
        Literal["retrace", "runners"],
        Setting(
            "Played by",
            basic=True,
            labels={"retrace": "Retrace", "runners": "your own runners"},
            is_added=True,
        ),
    ] = "retrace"
    """Who runs the agent: Retrace itself, or programs of yours that call `retrace.run` and lease episodes."""
    samples: Annotated[int, Field(ge=2, le=1024), Setting("Group size", unit="rollouts", basic=True)] = 8
    """Rollouts of each task in a step: the group that each is compared with. Must divide the rollouts of a step (batch size × gradient accumulation)."""
    sampling: Annotated[Sampling, Setting("Sampling")] = Sampling(max_new_tokens=256)
    """How turns are sampled; `max_new_tokens` is for one turn."""
    budget: Annotated[Budget, Setting("Rollouts")] = Budget()
    """When an episode is cut short."""
    rewards: Annotated[RewardsConfig, Setting("Reward")] = RewardsConfig()
    """What counts as good."""
    beta: Annotated[float, Field(ge=0, le=10), Setting("KL penalty β", basic=True)] = 0.0
    """Weight of the KL divergence from the base policy, which is its reference; 0 needs no reference model."""
    epsilon: Annotated[float, Field(gt=0, le=10), Setting("Clip range, down")] = 0.2
    """How far the probability of a token or sequence may fall, as a share, before its gradient is cut."""
    epsilon_high: Annotated[float, Field(gt=0, le=10), Setting("Clip range, up")] = 0.28
    """The same for a rise; above the lower one ("clip higher") unlikely tokens have room to become likely."""
    updates: Annotated[Count, Setting("Updates on each rollout")] = 1
    """Optimizer steps on the same rollouts. With 1 nothing is ever clipped."""
    mask_cut_off: Annotated[bool, Setting("Mask cut-off turns", is_added=True)] = False
    """Leave turns that the token limit cut off out of the loss (DAPO's overlong filtering) instead of learning from them as mistakes."""
    resample: Annotated[int, Field(ge=0, le=100), Setting("Dynamic sampling", unit="tries")] = 0
    """How often, at most, tasks whose rollouts all got the same reward are exchanged for others within a step. With 0 they stay, without a gradient."""
    lease_seconds: Annotated[int, Field(ge=10, le=86_400), Setting("Runner's lease", unit="seconds", is_added=True)] = (
        120
    )
    """A runner that is silent for so long has lost its episode, which is given out again."""
    deadline_seconds: Annotated[Positive, Setting("Runners' deadline", unit="seconds", is_added=True)] = 1800.0
    """So long after a step's first chat it goes on without the episodes that are still being played."""
    held_out_file: Annotated[str | None, Setting(internal="files stay on the worker", is_added=True)] = None
    """A JSON Lines file with the held-out tasks, where the training tasks come from a file."""
    held_out: Annotated[int, Field(ge=0, le=10_000), Setting("Held-out tasks", basic=True)] = 60
    """Held-out tasks attempted at each evaluation; 0 evaluates nothing."""
    kept: Annotated[int, Field(ge=0, le=1024), Setting("Kept tasks a step")] = 2
    """Tasks of each step whose rollouts are kept to be read."""

    def check(self) -> None:
        if self.rows_a_step % self.samples:
            raise InvalidField(
                "samples",
                f"{self.samples} does not divide the {self.rows_a_step} rollouts of a step (batch size × gradient accumulation)",
                advice="Change one of them.",
            )
        if self.sampling.temperature == 0:
            raise InvalidField(
                "sampling.temperature", "got 0, expected above 0: rollouts that are all alike teach nothing"
            )
        if self.model.scratch is not None:
            raise InvalidField(
                "model.scratch", "a policy without training reaches no reward", advice="Give model.path."
            )
