"""Several runs side by side: which settings differ. Pages overlay their curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.training.models import Run

MAX_RUNS = 6


@dataclass(frozen=True)
class Setting:
    """One setting of every run, as text."""

    name: str
    values: list[str]

    @property
    def differs(self) -> bool:
        return len(set(self.values)) > 1


def settings_of(runs: Sequence[Run]) -> list[Setting]:
    """Every setting, with those that differ first."""
    flat = [_facts(run) | _flat(run.config) for run in runs]
    names = dict.fromkeys(name for config in flat for name in config)
    settings = [Setting(name, [config.get(name, "–") for config in flat]) for name in names]
    return sorted(settings, key=lambda setting: not setting.differs)


def _facts(run: Run) -> dict[str, str]:
    return {
        "method": run.get_algorithm_display(),
        "version": str(run.version or "–"),
        "base": str(run.base or "scratch"),
        "preset": run.preset or "–",
    }


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """{"optimizer": {"batch_size": 4}} -> {"optimizer.batch_size": "4"}"""
    values: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            values |= _flat(value, f"{prefix}{name}.")
        elif name == "terms" and isinstance(value, list):
            for term in value:
                values |= _flat(term, f"{prefix}{term.get('name') or term.get('component')}.")
        else:
            values[f"{prefix}{name}"] = f"{value:g}" if isinstance(value, float) else str(value)
    return values
