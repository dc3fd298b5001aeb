"""What a run may be told that keeps its own successes and learns from them."""

from dataclasses import dataclass, field
from typing import Literal

from trainer.configs.online import PracticeConfig
from trainer.configs.rollouts import Budget, Sampling
from trainer.configs.training import TrainingConfig
from trainer.validation import Count, InvalidField, Whole


@dataclass(frozen=True)
class StarConfig(TrainingConfig):
    """Rejection sampling in rounds. `optimizer` is for the fine-tuning at the end of each round."""

    kind: Literal["star"] = "star"
    tasks: PracticeConfig = field(default_factory=PracticeConfig)
    """What to attempt."""
    rounds: Count = 2
    """How often to attempt everything, keep what succeeded, and fine-tune the base on it."""
    samples: Count = 4
    """Attempts at each task in a round."""
    sampling: Sampling = field(default_factory=lambda: Sampling(max_new_tokens=256))
    """How turns are sampled."""
    budget: Budget = field(default_factory=Budget)
    """When an attempt is cut short."""
    hints: bool = True
    """Attempt tasks at which every sample failed once more with the right calls as a hint, which is taken out again before learning."""
    kept: Count = 2
    """Most runs of one task to learn from: different ones, the shortest first."""
    held_out: Whole = 60
    """Held-out tasks attempted before the first round and after each; 0 evaluates nothing."""

    def check(self) -> None:
        if self.sampling.temperature == 0 and self.samples > 1:
            raise InvalidField("sampling.temperature", "got 0, expected above 0: samples would all be alike")
        if self.model.scratch is not None:
            raise InvalidField(
                "model.scratch", "a policy without training succeeds at nothing", advice="Give model.path."
            )
