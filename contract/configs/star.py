"""What a run may be told that keeps its own successes and learns from them."""

from typing import Annotated, Literal

from pydantic import Field

from contract.configs.declaration import Count, Setting
from contract.configs.errors import InvalidField
from contract.configs.online import TrainingTasksConfig
from contract.configs.rollouts import Budget, Sampling
from contract.configs.training import TrainingConfig


class StarConfig(TrainingConfig):
    """Rejection sampling in rounds. `optimizer` is for the fine-tuning at the end of each round."""

    kind: Literal["star"] = "star"
    tasks: Annotated[TrainingTasksConfig, Setting("Tasks")] = TrainingTasksConfig()
    """What to attempt."""
    rounds: Annotated[int, Field(ge=1, le=20), Setting(basic=True)] = 2
    """How often to attempt everything, keep what succeeded, and fine-tune the base on it."""
    samples: Annotated[int, Field(ge=1, le=1024), Setting("Attempts", basic=True)] = 4
    """Attempts at each task in a round."""
    sampling: Annotated[Sampling, Setting("Sampling")] = Sampling(max_new_tokens=256)
    """How turns are sampled."""
    budget: Annotated[Budget, Setting("Rollouts")] = Budget()
    """When an attempt is cut short."""
    hints: bool = True
    """Attempt tasks at which every sample failed once more with the right calls as a hint, which is taken out again before learning."""
    kept: Annotated[Count, Setting("Most kept of a task")] = 2
    """Most trajectories of one task to learn from: different ones, the shortest first."""
    held_out: Annotated[int, Field(ge=0, le=10_000), Setting("Held-out tasks", basic=True)] = 60
    """Held-out tasks attempted before the first round and after each; 0 evaluates nothing."""

    def check(self) -> None:
        if self.sampling.temperature == 0 and self.samples > 1:
            raise InvalidField("sampling.temperature", "got 0, expected above 0: samples would all be alike")
        if self.model.scratch is not None:
            raise InvalidField(
                "model.scratch", "a policy without training succeeds at nothing", advice="Give model.path."
            )
