"""`report.json`: what came out of a run and what it came from."""

import json
import os
import platform
import resource
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from contract.configs import RunConfig, config_hash
from trainer.canary import facts_of

PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")


def complete_report(figures: dict[str, Any], config: RunConfig, folder: Path, *, seconds: float) -> dict[str, Any]:
    """The figures of a run with what every report has."""
    return {
        "kind": config.kind,
        **figures,
        **facts_of(folder),
        "seconds": round(seconds, 2),
        "peak_memory_mb": max(peak_memory_mb(), figures.get("peak_memory_mb", 0.0)),
        "config_hash": config_hash(config),
        "versions": versions(),
    }


def write_report(report: dict[str, Any], folder: Path) -> None:
    """Write report.json whole or not at all."""
    unfinished = folder / "report.json.part"
    unfinished.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    os.replace(unfinished, folder / "report.json")


def versions() -> dict[str, str]:
    """Versions of what the result depends on, without importing any of it."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def peak_memory_mb() -> float:
    """The most resident memory that this process has had, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6, 1)  # bytes there, KiB elsewhere
