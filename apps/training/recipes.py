"""What a person chooses of a run: few settings with a range each, and presets that fill them in.

The trainer has more settings than these and checks all of them again; here are those that people change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from apps.common.environments import ENVIRONMENTS
from apps.training.choices import CREDITS, LOSSES, METHODS, ONLY_FOR, RANGES, SCOPES, InvalidSetting
from apps.training.models import Run

LARGEST = 2**63 - 1
"""Whole numbers beyond have no meaning here, and from about 300 digits on no fraction stands for them."""
SMALL_MODEL = 20_000_000
"""Parameters below which a model learns only with the large learning rates of training from scratch."""
SMALL_TURN, TURN = 48, 512
"""Tokens. A model that thinks before it calls needs some hundreds: cut off in its thought it calls nothing, and no rollout succeeds."""
PATIENCE_SECONDS = 3600.0
"""Of a rollout that is learnt from. All of a step wait for each other's turns, so its time is the machine's and not the policy's: cut short by the clock it
would be unlearnt for being played on a slow one."""
SMALL_LENGTH, LENGTH = 2048, 4096
"""Tokens. An agent's run begins with its tools and rules, and rows that are longer teach nothing."""


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
    loss: str = ""
    """Empty is the algorithm's usual one."""
    label_smoothing: float = 0.0
    scope: str = "trajectory"
    desirable_weight: float = 1.0
    undesirable_weight: float = 1.0
    margin: float = 0.0
    tie_margin: float = 0.0
    error_weight: float = 1.0
    environment: str = "office"
    levels: str = ""
    """Names with spaces between; empty is the environment's usual ones."""
    tasks: int = 1000
    samples: int = 8
    turns: int = 12
    turn_tokens: int = 256
    credit: str = "trajectory"
    rounds: int = 2
    lora_rank: int = 16
    gradient_checkpointing: bool = False
    pause_on_alarms: bool = False
    checkpoint_every: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InvalidSetting("method", f"Got {self.method!r}, expected one of {', '.join(METHODS)}.")
        losses = {loss for known in LOSSES.values() for loss in known}
        chosen = (
            ("loss", self.loss, losses | {""}),
            ("scope", self.scope, set(SCOPES)),
            ("environment", self.environment, set(ENVIRONMENTS)),
            ("credit", self.credit, set(CREDITS)),
        )
        for name, given, choices in chosen:
            if given not in choices:
                raise InvalidSetting(name, f"Got {given!r}, expected one of {', '.join(sorted(choices - {''}))}.")
        known_levels = ENVIRONMENTS[self.environment].levels
        if unknown := [level for level in self.levels.split() if level not in known_levels]:
            raise InvalidSetting("levels", f"Got {unknown[0]!r}, expected some of {', '.join(known_levels)}.")
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
            "pause_on_alarms": self.pause_on_alarms,
        }
        if self.method != "full":
            config["lora"] = {"rank": self.lora_rank, "alpha": 2.0 * self.lora_rank}
        if self.method == "qlora":
            config["lora"]["quantized"] = True
        if algorithm in Run.ONLINE:
            return config | self._practice(algorithm)
        own = {name: getattr(self, name) for name, algorithms in ONLY_FOR.items() if algorithm in algorithms}
        return config | {name: value for name, value in own.items() if value != ""}

    def _practice(self, algorithm: str) -> dict[str, Any]:
        """What runs are told that learn from their own rollouts."""
        practice: dict[str, Any] = {
            "tasks": {"environment": self.environment, "levels": self.levels.split(), "count": self.tasks},
            "samples": self.samples,
            "sampling": {"max_new_tokens": self.turn_tokens},
            "budget": {"steps": self.turns, "seconds": PATIENCE_SECONDS},
        }
        own = {name: getattr(self, name) for name in ("credit", "rounds") if algorithm in ONLY_FOR[name]}
        return practice | own

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
    online_steps: int = 20

    def settings(self, *, algorithm: str, method: str, parameters: int | None) -> RunSettings:
        """The preset's settings for this algorithm on a model of so many parameters (None where nobody knows)."""
        small = parameters is not None and parameters < SMALL_MODEL
        if algorithm in Run.ONLINE and algorithm != Run.Algorithm.STAR:
            return self._online(algorithm, method, small=small)
        return RunSettings(
            method=method,
            tasks=200,
            samples=4,
            turn_tokens=SMALL_TURN if small else TURN,
            max_length=SMALL_LENGTH if small else LENGTH,
            learning_rate=_learning_rate(algorithm, method, small=small),
            epochs=self.epochs,
            max_steps=self.max_steps,
            batch_size=16 if small else 4,
            gradient_accumulation=1 if small else 4,
            gradient_checkpointing=not small,
            checkpoint_every=10 if self.max_steps else 50,
        )

    def _online(self, algorithm: str, method: str, *, small: bool) -> RunSettings:
        """Rollouts cost more than updates, so these are counted in steps of 32 rollouts: 4 tasks, 8 each."""
        return RunSettings(
            method=method,
            learning_rate=_learning_rate(algorithm, method, small=small),
            max_steps=self.online_steps,
            batch_size=16 if small else 4,
            gradient_accumulation=2 if small else 8,
            gradient_checkpointing=not small,
            turn_tokens=SMALL_TURN if small else TURN,
            checkpoint_every=10,
        )


PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("quick", "Quick check", "20 steps: does it load, fit and move at all?", epochs=1.0, max_steps=20),
        Preset(
            "standard",
            "Standard",
            "Once over the rows, or 60 steps of rollouts: what most runs need.",
            epochs=1.0,
            online_steps=60,
        ),
        Preset(
            "thorough",
            "Thorough",
            "Three times over the rows, or 200 steps of rollouts: for small or precious data.",
            epochs=3.0,
            online_steps=200,
        ),
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
        if algorithm not in ONLY_FOR.get(name, (algorithm,)):
            owners = " and ".join(Run.Algorithm(owner).label for owner in ONLY_FOR[name])
            raise InvalidSetting(name, f"It is a setting of {owners} alone.")
        if not _is_a(known[name], value):
            raise InvalidSetting(name, f"Got {value!r}, expected {_WORDS[known[name]]}.")
        if isinstance(value, int) and abs(value) > LARGEST:
            raise InvalidSetting(name, f"Got a number of {len(str(abs(value)))} digits, expected at most 19.")
        wanted[name] = known[name](value)
    if (loss := wanted.get("loss")) and loss not in LOSSES[algorithm]:
        raise InvalidSetting("loss", f"Got {loss!r}, expected one of {', '.join(LOSSES[algorithm])}.")
    return replace(start, **wanted)


def _is_a(kind: type, value: object) -> bool:
    """Whether `value` can stand for `kind`: true is no number, and 3 is a number with a fraction of 0."""
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind) or (kind is float and isinstance(value, int))


_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def _learning_rate(algorithm: str, method: str, *, small: bool) -> float:
    """Usual values: preferences want smaller steps than imitation, adapters larger ones than whole weights."""
    small_one, adapters, whole = LEARNING_RATES[Run.Algorithm(algorithm)]
    if small:
        return small_one
    return whole if method == "full" else adapters


LEARNING_RATES: Mapping[str, tuple[float, float, float]] = {
    Run.Algorithm.SFT: (2e-3, 1e-4, 1e-5),
    Run.Algorithm.DPO: (1e-4, 2e-5, 1e-6),
    Run.Algorithm.KTO: (1e-4, 2e-5, 1e-6),
    Run.Algorithm.REWARD_MODEL: (1e-3, 1e-4, 1e-5),
    Run.Algorithm.PROCESS_REWARD_MODEL: (1e-3, 1e-4, 1e-5),
    Run.Algorithm.GRPO: (3e-4, 2e-5, 1e-6),
    Run.Algorithm.RLOO: (3e-4, 2e-5, 1e-6),
    Run.Algorithm.STAR: (2e-3, 1e-4, 1e-5),
}
"""Of a small model, of adapters, of whole weights."""
