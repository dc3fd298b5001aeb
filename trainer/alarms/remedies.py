"""The one setting to resume with after each alarm, and its value to try. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from contract.configs import TrainingConfig
from contract.configs.fields import ConfigField, settable_fields
from contract.configs.paths import at, in_words
from trainer.alarms.rules import AlarmName


class Remedy(NamedTuple):
    """A setting that people can change, and what to change it to."""

    setting: str
    """Its path in the config, such as optimizer.learning_rate."""
    value: Any
    advice: str
    """The same in words."""


class Change(NamedTuple):
    """What becomes of a setting."""

    setting: str
    new: Callable[[Any], Any]
    """From its value to the one to try."""


def third(value: float) -> float:
    """3e-4 -> 1e-4"""
    return float(f"{value / 3:.2g}")


def at_least_doubled(least: float) -> Callable[[float], float]:
    """0 -> `least`; of more, twice as much."""
    return lambda value: max(least, 2 * value)


STEPS_TOO_LARGE = Change("optimizer.learning_rate", third)
NEARER_ITS_BASE = Change("beta", at_least_doubled(0.04))
OTHER_GROUPS = Change("resample", lambda tries: max(2, 2 * tries))
REMEDIES: Mapping[AlarmName, tuple[Change, ...]] = {
    "not_a_number": (STEPS_TOO_LARGE,),
    "echo_trap": (OTHER_GROUPS,),
    "reward_hacking": (NEARER_ITS_BASE,),
    "kl_blow_up": (NEARER_ITS_BASE,),
    "length_gaming": (Change("budget.steps", lambda steps: max(1, steps * 2 // 3)),),
    "dead_groups": (OTHER_GROUPS,),
    "rising_entropy": (STEPS_TOO_LARGE,),
    "cut_off_turns": (Change("mask_cut_off", lambda _: True), STEPS_TOO_LARGE),
    "standstill": (NEARER_ITS_BASE,),
    "chosen_falls": (Change("sft_weight", at_least_doubled(0.1)), STEPS_TOO_LARGE),
}
"""The first that changes something is named."""


def remedy_for(alarm: AlarmName, config: TrainingConfig) -> Remedy | None:
    """None where the algorithm has no such setting, or it stands there already."""
    fields = {field.path: field for field in settable_fields(type(config))}
    for setting, new in REMEDIES[alarm]:
        if (field := fields.get(setting)) is None:
            continue
        now = at(config, setting)
        value = within(field, new(now))
        if value != now:
            return Remedy(setting, value, f"To try: {field.title} {in_words(value)} instead of {in_words(now)}.")
    return None


def within(field: ConfigField, value: Any) -> Any:
    """No more than the setting may be."""
    return value if field.range.high is None else min(value, type(value)(field.range.high))
