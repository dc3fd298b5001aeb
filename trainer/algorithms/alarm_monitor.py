"""Checks the logs of TRL's trainers for alarms, emits them, and pauses the run if configured."""

from collections.abc import Mapping
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from contract.configs import OnlineConfig, TrainingConfig
from contract.configs.rewards import name_of
from contract.events import AlarmRaised
from trainer.alarms import Watch, remedy_for
from trainer.algorithms.callback import metric_name
from trainer.events import EventLog
from trainer.interruption import StopRequest


class WatchCallback(TrainerCallback):
    """A pause is an ordinary stop: the run saves a checkpoint, from which it can be resumed."""

    def __init__(self, config: TrainingConfig, events: EventLog, stop: StopRequest) -> None:
        self.config = config
        self.events = events
        self.stop = stop
        self.watch = Watch(learned_in(config))

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.watch.recall(named(entry) for entry in state.log_history)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        for alarm in self.watch.check(state.global_step, named(logs or {})):
            remedy = remedy_for(alarm.name, self.config)
            advice = f"{alarm.advice} {remedy.advice}" if remedy else alarm.advice
            setting, value = (remedy.setting, remedy.value) if remedy else ("", None)
            self.events.emit(AlarmRaised(alarm.step, alarm.name, alarm.message, advice, setting, value))
            if self.config.pause_on_alarms:
                self.stop.ask(f"Paused by an alarm at step {alarm.step}. {alarm.message}")


def learned_in(config: TrainingConfig) -> list[str]:
    """The curves of learned reward terms with a nonzero weight."""
    terms = config.rewards.terms if isinstance(config, OnlineConfig) else ()
    return [f"rewards/{name_of(term)}/mean" for term in terms if term.IS_LEARNED and term.weight]


def named(logs: Mapping[str, Any]) -> dict[str, float]:
    """The numeric values, under the names used in events."""
    return {metric_name(name): float(value) for name, value in logs.items() if isinstance(value, int | float)}
