"""PostgreSQL refuses to run as root, so a root supervisor runs it as another user, who must be able to read the checkout and must not outlive the supervisor."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from apps.common.stack.identity import Identity
from tests.processes import wait_until_gone

ROOT = Path(__file__).resolve().parents[2]
LEND = """
import signal, subprocess, sys
from pathlib import Path
from apps.common.stack.identity import Identity
closed = Path(sys.argv[1])
user = Identity.for_postgres(data=closed / "data", programs=Path("/usr/bin"))
show = f"echo pid $$; cat /proc/self/status; ls {closed} && echo reached; exec sleep 60"
subprocess.run(["sh", "-c", show], preexec_fn=user.before_exec(signal.SIGTERM))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to lend PostgreSQL another user")
def test_root_lends_an_ordinary_user_that_passes_closed_folders_and_dies_with_us(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    parent = subprocess.Popen([sys.executable, "-c", LEND, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert parent.stdout is not None
    outputs = []
    while "reached" not in outputs:
        line = parent.stdout.readline()
        assert line, outputs
        outputs.append(line.strip())
    child = psutil.Process(int(outputs[0].removeprefix("pid ")))
    facts = dict(line.split(":\t") for line in outputs if ":\t" in line)
    assert set(facts["Uid"].split()) == {str(child.uids().real)}
    assert child.uids().real != 0
    assert int(facts["CapEff"], 16) == 0b10  # only CAP_DAC_OVERRIDE, bit 1
    parent.kill()
    parent.wait()
    wait_until_gone([child], 5)


def test_a_folder_that_anyone_may_enter_needs_no_capability(tmp_path: Path) -> None:
    identity = Identity.for_postgres(data=Path("/usr/share/nothing-here"), programs=Path("/usr/bin"))
    assert not identity.passes_closed_folders
