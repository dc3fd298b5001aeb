"""The setting to change after each alarm, and the value to try. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from contract.configs import OnlineConfig, TrainingConfig
from contract.configs.fields import ConfigField, field_at
from contract.configs.paths import at, value_text
from trainer.alarms.rules import AlarmName


class Remedy(NamedTuple):
    """A setting to change, and its new value."""

    setting: str
    """Its path in the config, such as optimizer.learning_rate or rewards.terms[0].measure."""
    value: Any
    advice: str
    """The suggestion as a sentence."""


class Change(NamedTuple):
    """A change of a setting."""

    setting: str | Callable[[TrainingConfig], str]
    """Its path, or a function that finds it in a config ("" if absent)."""
    new: Callable[[Any], Any]
    """Maps its value to the one to try."""


def third(value: float) -> float:
    """3e-4 -> 1e-4"""
    return float(f"{value / 3:.2g}")


def at_least_doubled(least: float) -> Callable[[float], float]:
    """0 -> `least`; otherwise twice the value, at least `least`."""
    return lambda value: max(least, 2 * value)


def outcome_measure(config: TrainingConfig) -> str:
    """The path of the outcome term's `measure`; "" if the run has no rewards."""
    return config.rewards.outcome_measure if isinstance(config, OnlineConfig) else ""


STEPS_TOO_LARGE = Change("optimizer.learning_rate", third)
FIRST_BETA = 0.04
"""The KL penalty to try where there is none."""
NEARER_ITS_BASE = Change("beta", at_least_doubled(FIRST_BETA))
SUCCESS_ALONE = Change(outcome_measure, lambda _: "success")
"""If a failure can score below 0, writing an unparsable call becomes a way to avoid acting."""
OTHER_GROUPS = Change("resample", lambda tries: max(2, 2 * tries))
REMEDIES: Mapping[AlarmName, tuple[Change, ...]] = {
    "not_a_number": (STEPS_TOO_LARGE,),
    "echo_trap": (OTHER_GROUPS,),
    "reward_hacking": (NEARER_ITS_BASE,),
    "kl_blow_up": (NEARER_ITS_BASE,),
    "length_gaming": (Change("budget.steps", lambda steps: max(1, steps * 2 // 3)),),
    "dead_groups": (OTHER_GROUPS,),
    "rising_entropy": (STEPS_TOO_LARGE,),
    "cut_off_turns": (Change("mask_cut_off", lambda _: True), SUCCESS_ALONE, STEPS_TOO_LARGE),
    "standstill": (NEARER_ITS_BASE,),
    "chosen_falls": (Change("sft_weight", at_least_doubled(0.1)), STEPS_TOO_LARGE),
}
"""The first one that changes something is suggested."""


def remedy_for(alarm: AlarmName, config: TrainingConfig) -> Remedy | None:
    """None if the algorithm has no such setting, or it already has that value."""
    for change, new in REMEDIES[alarm]:
        setting = change if isinstance(change, str) else change(config)
        field = field_at(config, setting)
        if field is None or field.internal:
            continue
        now = at(config, setting)
        value = within(field, new(now))
        if value != now:
            return Remedy(setting, value, f"To try: {field.title} {value_text(value)} instead of {value_text(now)}.")
    return None


def within(field: ConfigField, value: Any) -> Any:
    """`value`, capped at the setting's maximum."""
    return value if field.range.high is None else min(value, type(value)(field.range.high))
