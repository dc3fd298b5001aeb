"""Runs mypy, without its cache if a module is gone since: the plugin for Django would look for it, and report errors that aren't there.

.venv/bin/python .ci/type_check.py
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".mypy_cache"
MODULES = CACHE / "modules.txt"


def main() -> int:
    """Returns mypy's exit status."""
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "apps").rglob("*.py")}
    cached = set(MODULES.read_text().split()) if MODULES.exists() else None
    if cached is None or cached - modules:
        shutil.rmtree(CACHE, ignore_errors=True)
    CACHE.mkdir(exist_ok=True)
    MODULES.write_text("\n".join(sorted(modules)))
    return subprocess.run([sys.executable, "-m", "mypy", "--num-workers", "2"], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
