"""Config of STaR: a run that learns from its own successful attempts."""

from typing import Annotated, Literal

from pydantic import Field

from contract.configs.declaration import Count, Setting, Whole, internal
from contract.configs.errors import InvalidField
from contract.configs.online import TrainingTasksConfig
from contract.configs.rollouts import Budget, Sampling
from contract.configs.training import TrainingConfig
from contract.tracking import Tracker


class StarConfig(TrainingConfig):
    """Rejection sampling in rounds. `optimizer` is for the fine-tuning at the end of each round."""

    kind: Literal["star"] = "star"
    tasks: Annotated[TrainingTasksConfig, Setting("Tasks")] = TrainingTasksConfig()
    """The tasks to attempt."""
    rounds: Annotated[int, Field(ge=1, le=20), Setting(basic=True)] = 2
    """Rounds of attempting all tasks, keeping the successes, and fine-tuning the base policy on them."""
    samples: Annotated[int, Field(ge=1, le=1024), Setting("Attempts", basic=True)] = 4
    """Attempts per task and round."""
    sampling: Annotated[Sampling, Setting("Sampling")] = Sampling(max_new_tokens=256)
    """How turns are sampled."""
    budget: Annotated[Budget, Setting("Rollouts")] = Budget()
    """When an attempt is cut short."""
    hints: bool = True
    """Retry tasks at which every sample failed with the correct calls as a hint (rationalization); the hint is removed before learning."""
    kept: Annotated[Count, Setting("Most kept per task")] = 2
    """Maximum number of distinct trajectories per task to learn from, shortest first."""
    held_out: Annotated[int, Field(ge=0, le=10_000), Setting("Held-out tasks", basic=True)] = 60
    """Held-out tasks attempted before the first round and after each; 0 turns evaluation off."""
    evaluate_every: Annotated[Whole, internal("held-out success is measured after each round")] = 0
    """Unused."""
    tracker: Annotated[
        Tracker,
        Setting(internal="each round is a training of its own, so there are no curves of the whole run", is_added=True),
    ] = "none"
    """Unused."""

    def check(self) -> None:
        if self.sampling.temperature == 0 and self.samples > 1:
            raise InvalidField("sampling.temperature", "got 0, expected above 0: all samples would be the same")
        if self.model.scratch is not None:
            raise InvalidField("model.scratch", "an untrained policy never succeeds", advice="Give model.path.")
