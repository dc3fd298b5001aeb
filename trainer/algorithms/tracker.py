"""Also reports a training run's curves to the team's experiment tracker, through transformers' own callbacks.

A tracker gets settings, numbers, and the address of the run's page; no weights, rows, or rollouts. Retrace's own curves don't depend on it: a failing
tracker is dropped, and training continues.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

from contract.events import Tracked, Warned
from contract.tracking import TITLES, Tracker, Tracking, read_tracking, write_tracking
from trainer.events import EventLog
from trainer.failures import ConfigFailure

PROJECT = "retrace"
USUAL = {
    "WANDB_PROJECT": PROJECT,
    "WANDB_INIT_TIMEOUT": "30",
    "MLFLOW_EXPERIMENT_NAME": PROJECT,
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
}
"""Defaults that the worker's environment can override. An unreachable tracker mustn't hold up a run for hours."""


def tracker_callback(
    tracker: Tracker, folder: Path, arguments: TrainingArguments, events: EventLog
) -> TrackerCallback | None:
    """The callback of a run in `folder`; None if no tracker is configured. Raises ConfigFailure if its package is missing."""
    if tracker == "none":
        return None
    tracking = read_tracking(folder)
    for name, value in USUAL.items():
        os.environ.setdefault(name, value)
    # Uploads would send weights to the tracker.
    os.environ |= {"WANDB_LOG_MODEL": "false", "WANDB_WATCH": "false", "HF_MLFLOW_LOG_ARTIFACTS": "false"}
    os.environ |= {"TENSORBOARD_LOGGING_DIR": str(folder / "tensorboard"), "WANDB_DIR": str(folder)}
    if tracking.run:
        os.environ |= {"MLFLOW_RUN_ID": tracking.run, "WANDB_RUN_ID": tracking.run, "WANDB_RESUME": "allow"}
    # Names aren't unique, and Trackio resumes an existing run with the same name. The folder's name is an id, which begins with the time.
    arguments.run_name = f"{tracking.name or 'run'} {folder.name[-8:]}"
    arguments.project = PROJECT
    try:
        inner = INTEGRATION_TO_CALLBACK[tracker]()
    except (RuntimeError, ImportError):
        raise ConfigFailure(
            f"tracker: the worker has no package for {TITLES[tracker]}.",
            advice=f"Install it there (pip install {tracker}), or train without a tracker.",
        ) from None
    return TrackerCallback(tracker, inner, tracking, folder, events)


class TrackerCallback(TrainerCallback):
    """Forwards events to transformers' callback for the tracker, until that fails."""

    def __init__(
        self, tracker: Tracker, inner: TrainerCallback, tracking: Tracking, folder: Path, events: EventLog
    ) -> None:
        self._tracker = tracker
        self._inner: TrainerCallback | None = inner
        self._tracking = tracking
        self._folder = folder
        self._events = events

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._forward("on_train_begin", args, state, control, **kwargs)
        if self._inner is None or not state.is_world_process_zero:
            return
        try:
            run, url = LINKS[self._tracker](self._inner, self._tracking.page)
            write_tracking(replace(self._tracking, run=run), self._folder)
        except Exception as error:
            self._stop_reporting(error)
        else:
            self._events.emit(Tracked(TITLES[self._tracker], without_secrets(url)))

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._forward("on_log", args, state, control, **kwargs)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._forward("on_train_end", args, state, control, **kwargs)

    def _forward(self, method: str, *args: Any, **kwargs: Any) -> None:
        if self._inner is None:
            return
        try:
            getattr(self._inner, method)(*args, **kwargs)
        except Exception as error:  # no tracker failure may end the run
            self._stop_reporting(error)

    def _stop_reporting(self, error: Exception) -> None:
        """The error's text isn't reported: it may contain credentials from the tracker's address."""
        self._inner = None
        self._events.emit(
            Warned(
                f"{TITLES[self._tracker]} no longer accepts this run's data ({type(error).__name__}).",
                advice="Training continues, and its curves are here. The operator of this installation can check why the worker can't report there.",
            )
        )


def link_wandb(inner: Any, page: str) -> tuple[str, str]:
    run = inner._wandb.run
    run.config.update({"retrace": page}, allow_val_change=True)
    return run.id, run.url or ""


def link_mlflow(inner: Any, page: str) -> tuple[str, str]:
    mlflow = inner._ml_flow
    run = mlflow.active_run().info
    mlflow.set_tag("retrace", page)
    address = str(mlflow.get_tracking_uri()).rstrip("/")
    return run.run_id, f"{address}/#/experiments/{run.experiment_id}/runs/{run.run_id}"


def link_trackio(inner: Any, page: str) -> tuple[str, str]:
    inner._trackio.config["retrace"] = page
    return "", inner.SPACE_URL.format(space_id=inner._space_id) if inner._space_id else ""


def link_tensorboard(inner: Any, page: str) -> tuple[str, str]:
    inner.tb_writer.add_text("retrace", page)
    return "", ""


LINKS = {"wandb": link_wandb, "mlflow": link_mlflow, "trackio": link_trackio, "tensorboard": link_tensorboard}
"""Each sets the URL of the run's page in Retrace, and returns the tracker's run id and page URL, if any."""


def without_secrets(url: str) -> str:
    """The http(s) URL without credentials; "" for any other."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return ""
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
