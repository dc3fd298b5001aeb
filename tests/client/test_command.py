"""The command `retrace`, run as a process against the real server."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from retrace import Client

from apps.accounts.models import Workspace
from apps.policies import registration
from apps.training.models import Run
from tests import factories
from tests.client.network import Network
from tests.client.rows import pairs
from tests.live import LiveStack
from tests.workers.frozen_versions import SMALLEST, freeze

SOURCE = Path(__file__).resolve().parents[2] / "client" / "src"
Shell = Callable[..., subprocess.CompletedProcess[str]]
ROW = {"prompt": [], "chosen": [], "rejected": [], "tools": "[]"}


@pytest.fixture
def environment(live_stack: LiveStack, token: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE), "RETRACE_URL": live_stack.url, "RETRACE_TOKEN": token}


@pytest.fixture
def retrace(environment: dict[str, str], tmp_path: Path) -> Shell:
    def run(*arguments: str, **changed: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "retrace", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, env={**environment, **changed}, cwd=tmp_path, timeout=300
        )

    return run


def test_files_are_imported(retrace: Shell, client: Client, tmp_path: Path) -> None:
    for name, count in (("one", 1), ("two", 3)):
        lines = "".join(json.dumps({**row, "id": f"{name}-{row['id']}"}) + "\n" for row in pairs(count))
        (tmp_path / f"{name}.jsonl").write_text(lines)
    done = retrace("import", "one.jsonl", "two.jsonl")
    assert (done.returncode, done.stderr) == (0, "")  # no terminal: no progress
    assert done.stdout.splitlines() == [
        "one.jsonl: 2 trajectories of 1 task",
        "two.jsonl: 6 trajectories of 3 tasks",
    ]
    assert len(list(client.trajectories.list())) == 8


def test_an_import_that_fails_ends_with_1(retrace: Shell, tmp_path: Path) -> None:
    (tmp_path / "what.jsonl").write_text('{"what": "is this?"}\n')
    failed = retrace("import", "what.jsonl", "--json")
    answer = json.loads(failed.stdout)
    assert (failed.returncode, answer["state"]) == (1, "failed")
    assert answer["error"] in retrace("import", "what.jsonl").stdout
    missing = retrace("import", "what.jsonl", "nowhere.jsonl")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr == "retrace: There is no file nowhere.jsonl. Nothing was sent.\n"


def test_a_version_is_exported(retrace: Shell, workspace: Workspace, tmp_path: Path) -> None:
    made = freeze({"train": [ROW] * 3, "validation": [ROW]}, of=workspace)
    sha256 = made.files["jsonl"]["train"]["sha256"]
    done = retrace("export", made.dataset.name, "--split", "train", "--to", "rows/train.jsonl")
    assert done.stdout == f"rows/train.jsonl: 3 rows, {made.files['jsonl']['train']['bytes']} bytes, SHA-256 {sha256}\n"
    assert len((tmp_path / "rows" / "train.jsonl").read_text().splitlines()) == 3
    by_id = retrace("export", f"{made.dataset_id}/1", "--split", "validation", "--json")
    assert json.loads(by_id.stdout)["rows"] == 1
    assert (tmp_path / "validation.jsonl").exists()
    unknown = retrace("export", "Nothing")
    assert unknown.returncode == 1
    assert unknown.stderr.startswith("retrace: There is no dataset called 'Nothing'. Give the id")


@pytest.mark.long
def test_training_runs_are_listed_shown_launched_and_waited_for(
    retrace: Shell, workspace: Workspace, tmp_path: Path
) -> None:
    failed = factories.run(
        of=workspace,
        name="broken",
        state=Run.State.FAILED,
        finished_at="2026-01-01T00:00:00Z",
        failure={"message": "The disk is full.", "advice": "Make room and resume it."},
    )
    shown = retrace("runs", "show", str(failed.pk))
    assert shown.stdout.endswith("\n\nThe disk is full. Make room and resume it.\n")
    over = retrace("runs", "wait", str(failed.pk))
    assert (over.returncode, over.stdout) == (1, f"{failed.pk}: The disk is full. Make room and resume it.\n")

    version = freeze(
        {"train": [{**ROW, "chosen": [message("yes")], "prompt": [message("?", "user")]}] * 4}, of=workspace
    )
    config = {"model": {"scratch": SMALLEST}, "optimizer": {"batch_size": 2, "max_steps": 2}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    launch = ["runs", "launch", "--algorithm", "sft", "--version", str(version.pk), "--preset", "quick"]
    launched = retrace(*launch, "--name", "mine", "--config", "config.json")
    assert (launched.returncode, launched.stderr) == (0, "")
    run_id = launched.stdout.strip()
    waited = retrace("runs", "wait", run_id)
    assert (waited.returncode, waited.stdout) == (0, f"{run_id}: finished\n")
    rows = [line.split("\t") for line in retrace("runs", "list", "--limit", "1").stdout.splitlines()]
    assert rows == [[run_id, "finished", "sft", "2", "2", "mine"]]
    assert [json.loads(line)["name"] for line in retrace("runs", "list", "--json").stdout.splitlines()] == [
        "mine",
        "broken",
    ]
    (tmp_path / "config.json").write_text("[]")
    wrong = retrace(*launch, "--config", "config.json")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "retrace: config.json holds a list. Give an object with the settings to change.\n",
    )


def message(content: str, role: str = "assistant") -> dict[str, str]:
    return {"role": role, "content": content}


def test_errors_are_one_sentence_without_a_traceback(retrace: Shell) -> None:
    for arguments, changed, status, expected in (
        (["runs", "list"], {"RETRACE_TOKEN": "rt_wrong"}, 1, "token"),
        (["runs", "list"], {"RETRACE_TOKEN": ""}, 2, "An API token is needed."),
        (["runs", "list"], {"RETRACE_URL": "nowhere"}, 2, "Retrace's URL is needed"),
        (["runs", "show", "00000000-0000-7000-8000-000000000000"], {}, 1, "retrace: "),
        (["runs", "show", ""], {}, 2, "'' isn't an id."),
        (["runs", "list", "--limit", "-1"], {}, 2, "'-1' isn't a count. Expected a whole number from 1."),
        (["runs"], {}, 2, "usage: retrace runs"),
        (["dance"], {}, 2, "invalid choice: 'dance'"),
    ):
        done = retrace(*arguments, **changed)
        assert (done.returncode, done.stdout) == (status, ""), arguments
        assert expected in done.stderr, arguments
        assert "Traceback" not in done.stderr, arguments


def test_nothing_that_somebody_wrote_reaches_the_terminal_as_a_command(retrace: Shell, workspace: Workspace) -> None:
    run = factories.run(of=workspace, name="\x1b[2Jgone\x9b1m\tüber", state=Run.State.QUEUED)
    assert retrace("runs", "list").stdout == f"{run.pk}\tqueued\t{run.algorithm}\t0\t0\t\\u001b[2Jgone\\u009b1m über\n"
    assert json.loads(retrace("runs", "list", "--json").stdout)["name"] == run.name
    assert "\\u009b1m" in retrace("runs", "show", str(run.pk)).stdout


def test_the_token_can_be_an_option(retrace: Shell, token: str) -> None:
    assert retrace("runs", "list", "--token", token, RETRACE_TOKEN="rt_wrong").returncode == 0


def test_interrupting_a_wait_leaves_no_traceback(
    environment: dict[str, str], network: Network, workspace: Workspace
) -> None:
    run = factories.run(of=workspace, state=Run.State.RUNNING)
    command = [sys.executable, "-m", "retrace", "runs", "wait", str(run.pk)]
    waiting = subprocess.Popen(
        command,
        env={**environment, "RETRACE_URL": network.url},
        stderr=subprocess.PIPE,
        text=True,
        # Background processes of shell scripts ignore SIGINT, and their children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while len(network.seen) < 2:
        assert waiting.poll() is None
        time.sleep(0.02)
    waiting.send_signal(signal.SIGINT)
    assert (waiting.communicate(timeout=30)[1], waiting.returncode) == ("", 130)


def test_progress_is_shown_on_a_terminal(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs(2)))
    terminal, other_end = pty.openpty()
    command = [sys.executable, "-m", "retrace", "import", "runs.jsonl"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=other_end, timeout=120)
    os.close(other_end)
    shown = os.read(terminal, 100_000).decode()
    os.close(terminal)
    size = (tmp_path / "runs.jsonl").stat().st_size
    assert f"{size:,} of {size:,} bytes (100 %)" in shown
    assert shown.endswith("\r\x1b[K")  # no partial file remains
    assert done.stdout == b"runs.jsonl: 4 trajectories of 2 tasks\n"


def test_sessions_are_listed_shown_traced_and_finished(retrace: Shell, client: Client, workspace: Workspace) -> None:
    registration.register_served(
        workspace=workspace, name="clerk", base_url="http://127.0.0.1:9/v1", model="served", by=factories.user()
    )
    opened = client.sessions.create(policy="clerk", task={"instruction": "Find the lamp."}, agent="mine")
    client.sessions.record(opened.id, key="1", type="reward", value=0.5)
    assert retrace("sessions", "list").stdout == f"{opened.id}\topen\tclerk\t0\t\tmine\n"
    assert json.loads(retrace("sessions", "trace", opened.id).stdout)["task"]["instruction"] == "Find the lamp."
    assert json.loads(retrace("sessions", "trace", opened.id, "--json").stdout)["events"][0]["value"] == 0.5
    assert retrace("sessions", "finish", opened.id, "--outcome", "failure").stdout == f"{opened.id}: finished\n"
    shown = dict(line.split("  ", 1) for line in retrace("sessions", "show", opened.id).stdout.splitlines())
    assert (shown["success"].strip(), shown["reward"].strip()) == ("false", "0.5")
    again = retrace("sessions", "finish", opened.id, "--outcome", "success")
    assert again.returncode == 1
    assert again.stderr == "retrace: This session is finished already; its outcome can't be changed.\n"


def test_traffic_splits_are_listed_shown_and_switched_by_their_name(
    retrace: Shell, client: Client, workspace: Workspace
) -> None:
    split = factories.traffic_split(of=workspace, name="support")
    assert "support" in retrace("traffic-splits", "list").stdout
    assert split.environment in retrace("traffic-splits", "show", "support").stdout
    assert retrace("traffic-splits", "off", "support").stdout == "support: off, the champion answers\n"
    assert not client.traffic_splits.read(str(split.pk)).is_on
    assert json.loads(retrace("traffic-splits", "on", str(split.pk), "--json").stdout)["is_on"] is True
    missing = retrace("traffic-splits", "show", "nobody")
    assert (missing.returncode, missing.stderr) == (1, "retrace: There is no traffic split called 'nobody'.\n")
