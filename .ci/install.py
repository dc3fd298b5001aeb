"""Creates .venv and installs the given requirement files into it, unless that's already done.

Runs on the machine's own Python 3.11 or later with only the standard library:

    python3 .ci/install.py requirements.txt [requirements-dev.txt]
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOG = VENV / "install.log"
RARELY_IMPORTED = "/(tests|transformers/models|torch/_inductor|faker/providers|networkx|openai/types)/"
"""Compiled when they're first imported: together two fifths of all modules."""


def main(files: list[str]) -> None:
    """Update .venv to what `files` specify. Exits with a message and status 1 if that's impossible."""
    if sys.version_info < (3, 11):  # noqa: UP036  # the machine may have an older one
        sys.exit(f"Retrace needs Python 3.11 or later; {sys.executable} is {sys.version.split()[0]}.")
    with (ROOT / ".venv.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Waiting for another installation in this folder …", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not _works():
            _make_venv()
        installed = [_install(name) for name in files]
        if any(installed):
            _compile()


def _works() -> bool:
    """Whether .venv exists and its Python runs: moving the folder or removing Python breaks it."""
    if not PYTHON.exists():
        return False
    answer = subprocess.run([PYTHON, "-c", "import sys, pip; print(sys.prefix)"], capture_output=True, text=True)
    return answer.returncode == 0 and Path(answer.stdout.strip()).resolve() == VENV.resolve()


def _make_venv() -> None:
    print(f"Making .venv with Python {sys.version.split()[0]}", flush=True)
    command = [sys.executable, "-m", "venv", "--clear", str(VENV)]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode != 0 and os.geteuid() == 0 and shutil.which("apt-get"):
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        print(f"This Python has no venv module; installing {package}", flush=True)
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        subprocess.run(["apt-get", "install", "-y", "-qq", package], check=False)
        made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode != 0:
        sys.exit(
            f"{made.stdout}{made.stderr}\n{sys.executable} cannot make a virtual environment. Install its venv module "
            "(Debian and Ubuntu: apt install python3-venv) and try again."
        )


def _install(name: str) -> bool:
    """Install one requirements file, unless a stamp with its hash says that it's installed. Returns whether it wasn't."""
    source = ROOT / name
    stamp = VENV / f"{name}.installed"
    wanted = hashlib.sha256(source.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return False
    count = sum(1 for line in source.read_text().splitlines() if "==" in line)
    print(f"Installing {count} packages from {name} (once; minutes, mostly PyTorch)", flush=True)
    started = time.monotonic()
    options = ("--disable-pip-version-check", "--no-input", "--no-compile")
    command = [PYTHON, "-m", "pip", "install", *options, "--requirement", source]
    with LOG.open("w") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as pip:
        assert pip.stdout is not None
        progress, collected = Progress(), 0
        for line in pip.stdout:
            log.write(line)
            if line.startswith(("Collecting", "Processing")):
                collected = min(collected + 1, count)  # pip may name one twice
                package = line.split()[1].rpartition("/")[2]
                progress.show(f"  {collected:3} of {count}: {package}")
            elif line.startswith("Installing collected"):
                progress.show(f"  {collected:3} of {count}: unpacking", last=True)
    if pip.returncode != 0:
        errors = [line for line in LOG.read_text().splitlines() if not line.startswith("WARNING")][-15:]
        sys.exit(
            "\n".join(errors) + f"\n\nThe installation failed; all of it is in {LOG}. Run the same command to retry."
        )
    stamp.write_text(wanted)
    print(f"  done in {time.monotonic() - started:.0f} s", flush=True)
    return True


def _compile() -> None:
    """Compile the packages on all cores; pip would use one. What can't be compiled (templates, other versions' syntax) is left alone."""
    packages = sysconfig.get_path("purelib", vars={"base": str(VENV)})
    command = [PYTHON, "-m", "compileall", "-qq", "-j", "0", "-x", RARELY_IMPORTED, packages]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)


class Progress:
    """A line that rewrites itself on a terminal; elsewhere at most one line per 20 s."""

    def __init__(self) -> None:
        self._shown_at = 0.0

    def show(self, text: str, *, last: bool = False) -> None:
        """Show `text`; with `last`, the line stays."""
        if sys.stdout.isatty():
            print(f"\r{text:<70}", end="\n" if last else "", flush=True)
        elif last or time.monotonic() - self._shown_at > 20:
            self._shown_at = time.monotonic()
            print(text, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
