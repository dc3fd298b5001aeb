"""Nothing outlives its parent, to any depth."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from contract.lifetime import TIED
from tests.processes import wait_until_gone

ROOT = Path(__file__).resolve().parents[2]
# A child process that ignores every signal it can, with a grandchild that does the same; each writes its pid.
FAMILY = """
import os, signal, subprocess, sys, time
from contract.lifetime import tied_to_this_process
depth = int(sys.argv[1])
for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(signum, signal.SIG_IGN)
print(os.getpid(), flush=True)
if depth:
    subprocess.Popen([sys.executable, "-c", sys.argv[2], str(depth - 1), sys.argv[2]], preexec_fn=tied_to_this_process())
time.sleep(60)
"""


@pytest.mark.parametrize("victim", [0, 1])
def test_when_one_is_killed_all_below_it_end(victim: int) -> None:
    top = subprocess.Popen([sys.executable, "-c", FAMILY, "2", FAMILY], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert top.stdout is not None
        pids = [int(top.stdout.readline()) for _ in range(3)]
        family = [psutil.Process(pid) for pid in pids]
        os.kill(pids[victim], signal.SIGKILL)
        wait_until_gone(family[victim:], 5)
    finally:
        top.kill()
        top.wait()


def test_a_child_whose_parent_died_before_the_tie_ends_itself() -> None:
    code = "import os; from contract.lifetime import die_with_parent; die_with_parent(parent=os.getppid() + 1); print('lived')"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, "")


LAUNCHER = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'trainer', sys.argv[1]])"


def test_a_trainer_that_a_launcher_started_ends_with_the_launcher(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        policy = {"engine": "server", "url": f"http://127.0.0.1:{silent.getsockname()[1]}/v1", "model": "m"}
        config = {"kind": "rollout", "policy": policy, "tasks": {"count": 1}}
        (tmp_path / "run.json").write_text(json.dumps(config))
        command = [sys.executable, "-c", LAUNCHER, str(tmp_path / "run.json")]
        launcher = psutil.Popen(command, cwd=ROOT, env={**os.environ, TIED: "1"})
        try:
            silent.accept()  # it plays
            [trainer] = launcher.children()
        finally:
            launcher.kill()
            launcher.wait()
        wait_until_gone([trainer], 5)
