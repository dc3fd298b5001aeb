"""Takes one run from `run.json` to its last event and `report.json`."""

import ctypes
import json
import os
import platform
import resource
import sys
import time
import traceback
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from contract.atomic_files import write_atomically
from contract.configs import RunConfig, config_hash, read_run_config
from contract.events import Failed, Finished, Log, RunCancelled
from trainer.canary import canary_entry
from trainer.events import EventLog
from trainer.failures import EXIT_CODE_OF, Cancelled, ExitCode, as_failure
from trainer.interruption import StopRequest

Work = Callable[[Any, Path, EventLog, StopRequest], dict[str, Any]]

ENTRY_POINTS = {
    "rollout": "trainer.rollouts.runner:run_rollout",
    "continuation": "trainer.rollouts.continuation:run_continuation",
    "sft": "trainer.algorithms.sft:train_sft",
    "star": "trainer.algorithms.star:train_star",
    "reward_model": "trainer.algorithms.reward_model:train_reward_model",
    "process_reward_model": "trainer.algorithms.prm:train_process_reward_model",
    "dpo": "trainer.algorithms.dpo:train_dpo",
    "kto": "trainer.algorithms.kto:train_kto",
    "grpo": "trainer.algorithms.grpo:train_grpo",
    "rloo": "trainer.algorithms.rloo:train_rloo",
}
"""Kind of run -> the function that does it."""


def run(path: Path, *, stop: StopRequest) -> ExitCode:
    """Execute `path`, a run.json, in its folder. Never raises: the last event and the exit code say how it ended."""
    folder = path.parent
    start = time.monotonic()
    rank = int(os.environ.get("RANK", "0"))  # under `accelerate launch`, the first process writes the run's events
    with EventLog(folder / ("events.jsonl" if rank == 0 else f"events.{rank}.jsonl")) as events:
        try:
            config = read_run_config(path)
            events.emit(Log("Reading the configuration: a run of kind " + config.kind))
            figures = work_of(config)(config, folder, events, stop)
            report = complete_report(figures, config, folder, seconds=time.monotonic() - start)
            if rank == 0:
                write_report(report, folder)
            events.emit(Finished(report))
            return ExitCode.FINISHED
        except Cancelled as cancelled:
            events.emit(RunCancelled(cancelled.checkpoint, stop.reason))
            return ExitCode.CANCELLED
        except Exception as error:
            failure = as_failure(error)
            trace = "".join(traceback.format_exception(error))
            print(trace, file=sys.stderr)
            details = trace if failure.category in ("crash", "out_of_memory") else ""
            events.emit(Failed(failure.category, failure.message, failure.advice, details))
            return EXIT_CODE_OF[failure.category]


def work_of(config: RunConfig) -> Work:
    """The function that does this kind of run. Imported lazily: rollouts of scripts don't need torch."""
    set_up_libraries()
    keep_freed_memory()
    work: Work = resolve_name(ENTRY_POINTS[config.kind])
    return work


def set_up_libraries() -> None:
    """Set variables that libraries read on import; call before importing torch."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # the rollout function, which TRL considers experimental
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # TRL would otherwise send telemetry
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # spinning idle threads starve a shared machine
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TQDM_DISABLE", "1")  # events report progress; progress bars only fill the log


M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Names of settings in glibc's malloc.h."""
KEPT_BLOCK = 32 << 20
KEPT_IN_ALL = 128 << 20


def keep_freed_memory() -> None:
    """Keep memory freed by tensors for reuse. Each step frees and allocates the same blocks, and glibc returns larger ones to the system,
    which must zero them again: for small models, a tenth of a step on the CPU.

    Blocks above 32 MiB, and free memory beyond 128 MiB at the top of the heap, are still returned. Does nothing with other C libraries.
    """
    try:
        setting = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc: another system, or musl
        return
    setting(M_MMAP_THRESHOLD, KEPT_BLOCK)
    setting(M_TRIM_THRESHOLD, KEPT_IN_ALL)


PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")


def complete_report(figures: dict[str, Any], config: RunConfig, folder: Path, *, seconds: float) -> dict[str, Any]:
    """A run's figures plus the fields of every report."""
    return {
        "kind": config.kind,
        **figures,
        **canary_entry(folder),
        "seconds": round(seconds, 2),
        "peak_memory_mb": max(peak_memory_mb(), figures.get("peak_memory_mb", 0.0)),
        "config_hash": config_hash(config),
        "versions": versions(),
    }


def write_report(report: dict[str, Any], folder: Path) -> None:
    """Write report.json atomically."""
    write_atomically(folder / "report.json", json.dumps(report, indent=2) + "\n")


def versions() -> dict[str, str]:
    """Versions of what the result depends on, without importing any of it."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def peak_memory_mb() -> float:
    """Peak resident memory of this process in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6, 1)  # bytes on macOS, KiB elsewhere
