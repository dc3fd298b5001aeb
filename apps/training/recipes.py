"""What a person chooses of a run: few settings with a range each, and presets that fill them in.

The trainer has more settings than these and checks all of them again; here are those that people change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

from apps.training.models import Run

SMALL_MODEL = 20_000_000
"""Parameters below which a model learns only with the large learning rates of training from scratch."""


class InvalidSetting(ValueError):
    """One setting is unknown or out of range. `field` names it."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


class Range(NamedTuple):
    """The values a number may have, both ends included."""

    low: float
    high: float


RANGES: Mapping[str, Range] = {
    "learning_rate": Range(1e-8, 1.0),
    "batch_size": Range(1, 1024),
    "gradient_accumulation": Range(1, 1024),
    "epochs": Range(0.01, 100),
    "max_steps": Range(0, 1_000_000),
    "max_length": Range(8, 1_000_000),
    "warmup_steps": Range(0, 100_000),
    "beta": Range(0.001, 10),
    "lora_rank": Range(1, 1024),
    "checkpoint_every": Range(1, 1_000_000),
    "seed": Range(0, 2**31 - 1),
}
METHODS = {"full": "Every weight", "lora": "LoRA adapters"}


@dataclass(frozen=True)
class RunSettings:
    """Raises InvalidSetting for a value out of its range."""

    method: str = "full"
    learning_rate: float = 1e-5
    batch_size: int = 8
    gradient_accumulation: int = 1
    epochs: float = 1.0
    max_steps: int = 0
    max_length: int = 2048
    warmup_steps: int = 0
    beta: float = 0.1
    lora_rank: int = 16
    gradient_checkpointing: bool = False
    checkpoint_every: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InvalidSetting("method", f"Got {self.method!r}, expected one of {', '.join(METHODS)}.")
        for name, allowed in RANGES.items():
            value = getattr(self, name)
            if not allowed.low <= value <= allowed.high:
                raise InvalidSetting(name, f"Got {value:g}, expected {allowed.low:g} to {allowed.high:g}.")

    def as_config(self, algorithm: str) -> dict[str, Any]:
        """The part of the trainer's run.json that does not name files."""
        config: dict[str, Any] = {
            "optimizer": {
                "learning_rate": self.learning_rate,
                "batch_size": self.batch_size,
                "gradient_accumulation": self.gradient_accumulation,
                "epochs": self.epochs,
                "max_steps": self.max_steps,
                "max_length": self.max_length,
                "warmup_steps": self.warmup_steps,
                "gradient_checkpointing": self.gradient_checkpointing,
            },
            "checkpoints": {"every": self.checkpoint_every, "keep": 2},
            "seed": self.seed,
        }
        if self.method == "lora":
            config["lora"] = {"rank": self.lora_rank, "alpha": 2.0 * self.lora_rank}
        if algorithm == Run.Algorithm.DPO:
            config["beta"] = self.beta
        return config

    def steps(self, rows: int) -> int:
        """Optimizer steps on so many rows, on one device."""
        if self.max_steps:
            return self.max_steps
        return max(1, round(self.epochs * rows / self.rows_a_step))

    @property
    def rows_a_step(self) -> int:
        return self.batch_size * self.gradient_accumulation


@dataclass(frozen=True)
class Preset:
    """A named starting point."""

    name: str
    title: str
    words: str
    epochs: float
    max_steps: int = 0

    def settings(self, *, algorithm: str, method: str, parameters: int | None) -> RunSettings:
        """The preset's settings for this algorithm on a model of so many parameters (None where nobody knows)."""
        small = parameters is not None and parameters < SMALL_MODEL
        return RunSettings(
            method=method,
            learning_rate=_learning_rate(algorithm, method, small=small),
            epochs=self.epochs,
            max_steps=self.max_steps,
            batch_size=16 if small else 4,
            gradient_accumulation=1 if small else 4,
            gradient_checkpointing=not small,
            checkpoint_every=10 if self.max_steps else 50,
        )


PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("quick", "Quick check", "20 steps: does it load, fit and move at all?", epochs=1.0, max_steps=20),
        Preset("standard", "Standard", "Once over the rows: what most runs need.", epochs=1.0),
        Preset("thorough", "Thorough", "Three times over the rows: for small or precious data.", epochs=3.0),
    )
}


def settings_from(
    *, preset: str, algorithm: str, method: str, parameters: int | None, changes: Mapping[str, Any]
) -> RunSettings:
    """A preset with some settings changed. Raises InvalidSetting."""
    if preset not in PRESETS:
        raise InvalidSetting("preset", f"Got {preset!r}, expected one of {', '.join(PRESETS)}.")
    if method not in METHODS:
        raise InvalidSetting("method", f"Got {method!r}, expected one of {', '.join(METHODS)}.")
    start = PRESETS[preset].settings(algorithm=algorithm, method=method, parameters=parameters)
    known = {field.name: type(getattr(start, field.name)) for field in fields(RunSettings)}
    wanted: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in known:
            raise InvalidSetting(name, f"There is no such setting; known: {', '.join(known)}.")
        if not _is_a(known[name], value):
            raise InvalidSetting(name, f"Got {value!r}, expected {_WORDS[known[name]]}.")
        wanted[name] = known[name](value)
    return replace(start, **wanted)


def as_json(settings: RunSettings) -> dict[str, Any]:
    """For the API and the forms."""
    return asdict(settings)


def _is_a(kind: type, value: object) -> bool:
    """Whether `value` can stand for `kind`: true is no number, and 3 is a number with a fraction of 0."""
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind) or (kind is float and isinstance(value, int))


_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def _learning_rate(algorithm: str, method: str, *, small: bool) -> float:
    """Usual values: DPO wants smaller steps than imitation, adapters larger ones than whole weights."""
    if small:
        return {"sft": 2e-3, "dpo": 3e-4, "reward_model": 1e-3}[algorithm]
    if method == "lora":
        return {"sft": 1e-4, "dpo": 2e-5, "reward_model": 1e-4}[algorithm]
    return {"sft": 1e-5, "dpo": 1e-6, "reward_model": 1e-5}[algorithm]
