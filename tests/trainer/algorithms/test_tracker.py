"""Metrics for external trackers: what is sent, and that no run depends on a tracker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from transformers import TrainerCallback
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

from contract.events import Failed, Progress, Tracked, Warned
from contract.tracking import KEYS, TITLES, Tracking, read_tracking, write_tracking
from tests.trainer.algorithms.test_sft import sft_run
from tests.trainer.runs import ROOT, events_of, run_here, write_run
from trainer.algorithms.tracker import LINKS, without_secrets
from trainer.failures import ExitCode

PAGE = "https://retrace.example.org/runs/1/"
PACKAGES = ["mlflow-skinny==3.17.2", "sqlalchemy", "alembic", "wandb==0.31.0", "tensorboard==2.21.0", "trackio==0.43.0"]


@pytest.fixture(autouse=True)
def variables_of_this_test() -> Iterator[None]:
    with patch.dict(os.environ):
        yield


class Board(TrainerCallback):
    """A stand-in for MLflow's callback: it keeps what it gets, and fails at the step `fails_at`."""

    fails_at: int | None = None

    def __init__(self) -> None:
        self.logged: list[tuple[int, list[str]]] = []
        self.tags: dict[str, str] = {}
        self.names: list[str | None] = []
        self._ml_flow = SimpleNamespace(
            active_run=lambda: SimpleNamespace(info=SimpleNamespace(run_id="r7", experiment_id="3")),
            set_tag=lambda name, value: self.tags.__setitem__(name, value),
            get_tracking_uri=lambda: "https://ada:secret@mlflow.example.org/",
        )
        BOARDS.append(self)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.names.append(args.run_name)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        if state.global_step == self.fails_at:
            raise ConnectionError("no route to https://ada:secret@mlflow.example.org")
        self.logged.append((state.global_step, sorted(logs or {})))


class Away(Board):
    fails_at = 10


BOARDS: list[Board] = []


def run(folder: Path, board: type[Board], **options: Any) -> ExitCode:
    BOARDS.clear()
    config = sft_run(folder, tracker="mlflow", checkpoints={"every": 10})
    write_tracking(Tracking("office-sft", PAGE), folder)
    with patch.dict(INTEGRATION_TO_CALLBACK, {"mlflow": board}):
        return run_here(folder, config, **options)


def of_kind(folder: Path, kind: type) -> list[Any]:
    return [line.event for line in events_of(folder) if isinstance(line.event, kind)]


def test_a_tracker_hears_the_curves_and_where_the_page_is(tmp_path: Path) -> None:
    assert run(tmp_path / "abcdefgh-1", Board) == ExitCode.FINISHED
    [board] = BOARDS
    assert {10, 20, 30} <= {step for step, names in board.logged if "loss" in names}
    assert (board.tags, board.names) == ({"retrace": PAGE}, ["office-sft cdefgh-1"])
    [tracked] = of_kind(tmp_path / "abcdefgh-1", Tracked)
    assert tracked == Tracked("MLflow", "https://mlflow.example.org/#/experiments/3/runs/r7")
    assert read_tracking(tmp_path / "abcdefgh-1") == Tracking("office-sft", PAGE, "r7")


def test_a_resumed_run_goes_on_under_the_same_id(tmp_path: Path) -> None:
    def is_twelfth(event: Any) -> bool:
        return isinstance(event, Progress) and event.step == 12

    folder = tmp_path / "run"
    assert run(folder, Board, stop_on=is_twelfth) == ExitCode.CANCELLED
    assert "MLFLOW_RUN_ID" not in os.environ
    with patch.dict(INTEGRATION_TO_CALLBACK, {"mlflow": Board}):
        assert run_here(folder, json.loads((folder / "run.json").read_text())) == ExitCode.FINISHED
    assert os.environ["MLFLOW_RUN_ID"] == "r7"


def test_a_tracker_that_fails_ends_no_run_and_gives_no_secret_away(tmp_path: Path) -> None:
    assert run(tmp_path / "run", Away) == ExitCode.FINISHED
    [board] = BOARDS
    assert max(step for step, _ in board.logged) < 10
    [warning] = of_kind(tmp_path / "run", Warned)
    assert warning.message == "MLflow no longer accepts this run's data (ConnectionError)."
    assert "secret" not in (tmp_path / "run" / "events.jsonl").read_text()


def test_a_package_that_is_missing_is_named_before_anything_is_trained(tmp_path: Path) -> None:
    def missing() -> None:
        raise RuntimeError("WandbCallback requires wandb to be installed.")

    folder = tmp_path / "run"
    config = sft_run(folder, tracker="wandb")
    with patch.dict(INTEGRATION_TO_CALLBACK, {"wandb": missing}):
        assert run_here(folder, config) == ExitCode.CONFIG
    [failed] = of_kind(folder, Failed)
    assert (failed.category, "pip install wandb" in failed.advice) == ("config", True)


def test_every_tracker_has_what_belongs_to_it() -> None:
    trackers = set(TITLES) - {"none"}
    assert set(LINKS) == trackers <= set(INTEGRATION_TO_CALLBACK)
    assert set(KEYS) <= trackers


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://ada:secret@mlflow.example.org:8443/#/runs/7", "https://mlflow.example.org:8443/#/runs/7"),
        ("http://127.0.0.1:5000/x", "http://127.0.0.1:5000/x"),
        ("sqlite:////srv/mlflow.db/#/runs/7", ""),
        ("javascript:alert(1)", ""),
        ("", ""),
    ],
)
def test_only_addresses_of_the_web_are_shown_without_what_is_secret(address: str, shown: str) -> None:
    assert without_secrets(address) == shown


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_trackers_themselves_take_a_run(tmp_path: Path) -> None:
    """Trackers are installed in a separate folder, since nothing else needs them."""
    packages = tmp_path / "packages"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages), *PACKAGES]
    subprocess.run(command, check=True, capture_output=True)
    ours = next(path for path in sys.path if path.endswith("site-packages"))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), ours, str(packages)]),
        "WANDB_MODE": "offline",
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path / 'mlflow.db'}",
        "TRACKIO_DIR": str(tmp_path / "trackio"),
    }
    for tracker, left in {
        "tensorboard": "*/tensorboard/events.*",
        "wandb": "*/wandb/offline-run-*/run-*.wandb",
        "mlflow": "mlflow.db",
        "trackio": "trackio/retrace*",
    }.items():
        folder = tmp_path / f"run-{tracker}"
        config = write_run(folder, sft_run(folder, tracker=tracker))
        write_tracking(Tracking("office-sft", PAGE), folder)
        subprocess.run([sys.executable, "-m", "trainer", str(config)], env=environment, check=True, cwd=ROOT)
        [tracked] = of_kind(folder, Tracked)
        assert (tracked.name, of_kind(folder, Warned)) == (TITLES[tracker], [])
        assert list(tmp_path.glob(left)), tracker
