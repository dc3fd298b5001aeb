"""The exact command line of a run, to start it or to repeat it by hand."""

import shlex
import sys
from pathlib import Path


def command_for(run_json: Path, *, processes: int = 1) -> list[str]:
    """The arguments that start a run; on several accelerators through `accelerate launch`."""
    if processes == 1:
        return [sys.executable, "-m", "trainer", str(run_json)]
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes", str(processes)]
    return [*launch, "-m", "trainer", str(run_json)]


def command_line(run_json: Path, *, processes: int = 1) -> str:
    """The same as one line for a shell."""
    return shlex.join(command_for(run_json, processes=processes))
