"""Writes requirements.txt and requirements-dev.txt: all direct and indirect dependencies in pyproject.toml, pinned.

Versions already in those files are kept if they still fit; `make lock UPGRADE=1` upgrades to the newest.
Left out: package indexes, and packages that only accelerator machines install (torch depends on them there).
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MACHINE_SPECIFIC = re.compile(r"^(nvidia-|cuda-|triton\b)")
HEADER = "# Written by `make lock` from pyproject.toml; edit that instead.\n"


def compile_pins(wanted: list[str], target: Path, *, upgrade: bool, constraints: Path | None = None) -> None:
    """Resolve `wanted` and write the result to `target`."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "wanted.in"
        source.write_text("".join(f"{line}\n" for line in wanted))
        command = [sys.executable, "-m", "piptools", "compile", str(source), "--output-file", str(target)]
        command += [
            "--quiet",
            "--strip-extras",
            "--no-header",
            "--no-annotate",
            "--no-emit-options",
            "--no-allow-unsafe",
        ]
        command += ["--upgrade"] if upgrade else []
        command += ["--constraint", str(constraints)] if constraints else []
        subprocess.run(command, check=True, cwd=ROOT)
    pins = [line for line in target.read_text().splitlines() if line and not line.startswith(("#", "-"))]
    pins = [re.sub(r"\+\w+$", "", pin) for pin in pins if not MACHINE_SPECIFIC.match(pin)]
    target.write_text(HEADER + "".join(f"{pin}\n" for pin in pins))


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    main, dev = ROOT / "requirements.txt", ROOT / "requirements-dev.txt"
    upgrade = "--upgrade" in sys.argv
    compile_pins(project["project"]["dependencies"], main, upgrade=upgrade)
    compile_pins(project["dependency-groups"]["dev"], dev, upgrade=upgrade, constraints=main)
