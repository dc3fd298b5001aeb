"""Config of online training: a run that learns from rollouts generated during the run."""

from typing import Annotated, Literal

from pydantic import Field

from contract.configs.declaration import Config, Count, Positive, Seed, Setting, Words, internal
from contract.configs.errors import InvalidField
from contract.configs.rewards import RewardsConfig
from contract.configs.rollouts import Budget, Sampling
from contract.configs.training import TrainingConfig


class TrainingTasksConfig(Config):
    """The tasks to learn from: drawn by the environment from its training split, or read from a file."""

    environment: Annotated[str, Setting(source="environment", basic=True)] = "office"
    """The environment of the rollouts. Its held-out tasks measure progress, so they're never trained on."""
    file: Annotated[str | None, internal("files are local to the worker")] = None
    """A JSON Lines file with one task per line to use instead; held-out tasks are refused."""
    levels: Annotated[Words, Setting(source="levels", basic=True)] = ()
    """Levels to draw from in turn, for training and for evaluation; if empty, the environment's default levels."""
    count: Annotated[Count, Setting("Tasks", basic=True)] = 1000
    """Number of different tasks to draw."""
    seed: Annotated[Seed, Setting("Task seed")] = 0
    """Determines which tasks are drawn."""


class OnlineConfig(TrainingConfig):
    """Settings shared by GRPO and RLOO. One step generates `optimizer.batch_size` × `gradient_accumulation` rollouts on each process."""

    tasks: Annotated[TrainingTasksConfig, Setting("Tasks")] = TrainingTasksConfig()
    """Tasks to learn from."""
    played_by: Annotated[
        Literal["retrace", "runners"],
        Setting(
            "Played by",
            basic=True,
            labels={"retrace": "Retrace", "runners": "your own runners"},
            is_added=True,
        ),
    ] = "retrace"
    """What runs the agent: Retrace itself, or your own programs, which call `retrace.run` and lease episodes."""
    samples: Annotated[int, Field(ge=2, le=1024), Setting("Group size", unit="rollouts", basic=True)] = 8
    """Rollouts of each task in a step, whose rewards are compared. Must divide the rollouts of a step (batch size × gradient accumulation)."""
    sampling: Annotated[Sampling, Setting("Sampling")] = Sampling(max_new_tokens=256)
    """How turns are sampled; `max_new_tokens` applies to one turn."""
    budget: Annotated[Budget, Setting("Rollouts")] = Budget()
    """When an episode is cut short."""
    rewards: Annotated[RewardsConfig, Setting("Reward")] = RewardsConfig()
    """The reward terms."""
    beta: Annotated[float, Field(ge=0, le=10), Setting("KL penalty β", basic=True)] = 0.0
    """Weight of the KL divergence from the base policy, the reference model; 0 needs none."""
    epsilon: Annotated[float, Field(gt=0, le=10), Setting("Clip range, down")] = 0.2
    """How far the probability of a token or sequence may fall, as a fraction, before its gradient is clipped."""
    epsilon_high: Annotated[float, Field(gt=0, le=10), Setting("Clip range, up")] = 0.28
    """The same for a rise; a value above the lower clip range ("clip higher") lets unlikely tokens become likely."""
    updates: Annotated[Count, Setting("Updates on each rollout")] = 1
    """Optimizer steps on the same rollouts. With 1, nothing is ever clipped."""
    mask_cut_off: Annotated[bool, Setting("Mask cut-off turns", is_added=True)] = False
    """Exclude turns cut off by the token limit from the loss (DAPO's overlong filtering) instead of learning from them as mistakes."""
    resample: Annotated[int, Field(ge=0, le=100), Setting("Dynamic sampling", unit="tries")] = 0
    """How many times per step tasks whose rollouts all got the same reward are replaced (DAPO's dynamic sampling). With 0 they stay, without a gradient."""
    lease_seconds: Annotated[int, Field(ge=10, le=86_400), Setting("Runner's lease", unit="seconds", is_added=True)] = (
        120
    )
    """A runner silent for this long loses its episode, which is leased to another."""
    deadline_seconds: Annotated[Positive, Setting("Runners' deadline", unit="seconds", is_added=True)] = 1800.0
    """How long after its first chat a step waits for unfinished episodes before it continues without them."""
    held_out_file: Annotated[str | None, Setting(internal="files are local to the worker", is_added=True)] = None
    """A JSON Lines file with the held-out tasks, where the training tasks come from a file."""
    held_out: Annotated[int, Field(ge=0, le=10_000), Setting("Held-out tasks", basic=True)] = 60
    """Held-out tasks attempted at each evaluation; 0 evaluates nothing."""
    keep_best: Annotated[bool, Setting("Keep the best weights", is_added=True)] = False
    """Publish the weights of the evaluation with the highest held-out success, rather than the last ones."""
    kept: Annotated[int, Field(ge=0, le=1024), Setting("Kept tasks a step")] = 2
    """Tasks of each step whose rollouts are kept to be read."""

    def steps(self, rows: int, *, processes: int = 1) -> int:
        steps = super().steps(rows, processes=processes)
        return steps if self.optimizer.max_steps else steps * self.updates  # only one of `updates` has new rollouts

    def check(self) -> None:
        if self.rows_per_step % self.samples:
            raise InvalidField(
                "samples",
                f"{self.samples} does not divide the {self.rows_per_step} rollouts of a step (batch size × gradient accumulation)",
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
