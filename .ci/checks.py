"""Runs every check, even after a failure, and ends with a table and a summary line.

.venv/bin/python .ci/checks.py [lint] [tests] [browser] [long]

Long journeys run only on request.
"""

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
RESULTS = ROOT / "var" / "test-results"
TEMPLATES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "templates").rglob("*.html"))
# These start their own processes: each pytest worker has a stack, shared by the tests of a file. Files go in the order of tests/conftest.py.
ALONE = "browser or stack or gpu"
# Some tests wait for what they started; another worker uses the cores meanwhile.
WORKERS = ("-n", "3")
# Neighboring tests go to the same worker, which sets up a module's fixtures, models, and servers once. An idle worker takes over half of another's
# remaining tests.
NEIGHBORS = ("--dist", "worksteal")
BY_FILE = ("--dist", "loadfile", "--no-loadscope-reorder")


USUAL = ("lint", "tests", "browser")


class Check(NamedTuple):
    """One command; `group` is what can be requested separately."""

    group: str
    name: str
    command: list[str]


class Outcome(NamedTuple):
    check: Check
    status: int
    seconds: float
    detail: str


def pytest(name: str, *arguments: str) -> list[str]:
    report = RESULTS / f"{name}.xml"
    return [str(BIN / "pytest"), "-q", "--durations=5", f"--junitxml={report}", *arguments]


CHECKS = [
    Check("lint", "ruff check", [str(BIN / "ruff"), "check", "--quiet", "."]),
    Check("lint", "ruff format", [str(BIN / "ruff"), "format", "--check", "--quiet", "."]),
    Check("lint", "templates", [str(BIN / "djade"), "--check", "--target-version", "5.2", *TEMPLATES]),
    Check("lint", "scripts and styles", [sys.executable, ".ci/biome.py", "check", "--error-on-warnings"]),
    Check("lint", "template lines", [sys.executable, ".ci/template_lines.py"]),
    Check("lint", "markup", [sys.executable, ".ci/markup.py"]),
    Check("lint", "import rules", [str(BIN / "lint-imports"), "--no-logo"]),
    Check("lint", "dead code", [sys.executable, ".ci/dead_code.py"]),
    Check("lint", "types", [sys.executable, ".ci/type_check.py"]),
    Check("tests", "tests", pytest("tests", *WORKERS, *NEIGHBORS, "-m", f"not ({ALONE} or vllm or long)")),
    Check("browser", "chromium", [sys.executable, "-m", "tests.browser.chromium"]),
    Check(
        "browser", "browser tests", pytest("browser", "--alone", *WORKERS, *BY_FILE, "-m", f"({ALONE}) and not long")
    ),
    Check("long", "long journeys", pytest("long", "-n", "2", *BY_FILE, "-m", "long")),
]


def run(check: Check) -> Outcome:
    """Run one check; its output goes straight to the terminal."""
    print(f"\n── {check.name} " + "─" * (76 - len(check.name)), flush=True)
    started = time.monotonic()
    status = subprocess.run(check.command, cwd=ROOT, check=False).returncode
    return Outcome(check, status, time.monotonic() - started, _counts(check))


def _counts(check: Check) -> str:
    """ "120 passed, 3 skipped" out of pytest's report."""
    reports = [part.removeprefix("--junitxml=") for part in check.command if part.startswith("--junitxml=")]
    if not reports or not Path(reports[0]).exists():
        return ""
    suites = list(ElementTree.parse(reports[0]).getroot().iter("testsuite"))
    total, failed, errors, skipped = (
        sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    )
    counts = {"passed": total - failed - errors - skipped, "failed": failed, "errors": errors, "skipped": skipped}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def main(groups: list[str]) -> int:
    """Run the checks of `groups` (all if empty) and return the exit status."""
    unknown = set(groups) - {check.group for check in CHECKS}
    if unknown:
        print(f"Unknown: {', '.join(sorted(unknown))}. Expected any of: lint, tests, browser, long.")
        return 2
    RESULTS.mkdir(parents=True, exist_ok=True)
    # With several processes, torch's own threads would spin while waiting for each other and take twice the time.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # The checks start about a hundred processes, each of which would otherwise recompile the project, and pytest its tests.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    outcomes = [run(check) for check in CHECKS if check.group in (groups or USUAL)]
    print("\n" + "─" * 80)
    for outcome in outcomes:
        state = "ok" if outcome.status == 0 else "FAILED"
        print(f"  {outcome.check.name:<16} {state:<8} {outcome.seconds:6.1f} s  {outcome.detail}")
    failed = [outcome.check.name for outcome in outcomes if outcome.status != 0]
    seconds = sum(outcome.seconds for outcome in outcomes)
    print(f"{'FAILED: ' + ', '.join(failed) if failed else 'All checks passed'} in {seconds:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
