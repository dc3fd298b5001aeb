"""The learning rate of a run resumed from a checkpoint: what its configuration says now."""

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class RateOfConfig(TrainerCallback):
    """A checkpoint restores the learning rate it was saved with, so without this a changed one in run.json would have no effect.

    If run.json's is unchanged, the result is bit-identical.
    """

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        wrapped: Any = kwargs["lr_scheduler"]
        scheduler: Any = getattr(wrapped, "scheduler", wrapped)  # accelerate wraps it
        if not hasattr(scheduler, "lr_lambdas"):  # DeepSpeed has its own schedulers
            return
        scheduler.base_lrs = [args.learning_rate] * len(scheduler.base_lrs)
        rates = [
            base * at(scheduler.last_epoch) for base, at in zip(scheduler.base_lrs, scheduler.lr_lambdas, strict=True)
        ]
        for group, rate in zip(scheduler.optimizer.param_groups, rates, strict=True):
            group["initial_lr"], group["lr"] = args.learning_rate, rate
        scheduler._last_lr = rates
