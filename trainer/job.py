"""Takes one run from `run.json` to its last event."""

import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from contract.configs import RunConfig, read_run_config
from contract.events import Failed, Finished, Log, RunCancelled
from trainer.allocator import keep_freed_memory
from trainer.events import EventLog
from trainer.failures import EXIT_CODE_OF, Cancelled, ExitCode, as_failure
from trainer.interruption import StopRequest
from trainer.reports import complete_report, write_report

Work = Callable[[Any, Path, EventLog, StopRequest], dict[str, Any]]

WORK_OF = {
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
    """Do what `path`, a run.json, says, in its folder. Never raises: the last event and the exit code say how it ended."""
    folder = path.parent
    began = time.monotonic()
    rank = int(os.environ.get("RANK", "0"))  # under `accelerate launch`, the first process speaks for all
    with EventLog(folder / ("events.jsonl" if rank == 0 else f"events.{rank}.jsonl")) as events:
        try:
            config = read_run_config(path)
            events.emit(Log("Reading the configuration: a run of kind " + config.kind))
            figures = work_of(config)(config, folder, events, stop)
            report = complete_report(figures, config, folder, seconds=time.monotonic() - began)
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
    """The function that does this kind of run. Each is imported only when used: rollouts of scripts need no torch."""
    set_up_libraries()
    keep_freed_memory()
    work: Work = resolve_name(WORK_OF[config.kind])
    return work


def set_up_libraries() -> None:
    """Settings that libraries read when they are imported, so before torch is."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # the rollout function, which TRL may still change
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # TRL reports each run to its makers otherwise
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that spin while they wait starve a shared machine
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TQDM_DISABLE", "1")  # progress is told by events; bars only fill the log
