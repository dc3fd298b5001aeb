"""Runs benchmarks: `python -m bench [SIZE] [NAME …]`. Prints one JSON object per line, then a table.

PostgreSQL and Valkey run in a temporary folder, durable as in `make run`, which is removed afterwards.
Each benchmark runs in its own process, on a copy of one migrated database.
"""

import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from pkgutil import iter_modules

import psycopg
from psycopg import sql

from apps.common.stack import paths
from apps.common.stack.services import EmbeddedServices
from bench.harness import SIZES, Figure, Size, table

ROOT = Path(__file__).resolve().parent.parent
NOT_MEASUREMENTS = {"__main__", "harness"}


def names() -> list[str]:
    """All benchmarks: the modules of this package that define `measure`."""
    modules = [
        module.name
        for module in iter_modules([str(Path(__file__).parent)])
        if module.name not in NOT_MEASUREMENTS and not module.ispkg
    ]
    return [name for name in modules if "\ndef measure(" in (ROOT / "bench" / f"{name}.py").read_text()]


def main(arguments: Sequence[str]) -> int:
    """Run the requested benchmarks. Returns 1 if a measurement failed; a missed limit is only shown."""
    text, *names_ = arguments or ["small"]
    size = Size.named(text)
    if unknown := set(names_) - set(names()):
        sys.exit(f"No measurement named {', '.join(sorted(unknown))}. There are: {', '.join(names())}.")
    var = Path(tempfile.mkdtemp(prefix="retrace-bench-", dir=ROOT / "var" if (ROOT / "var").exists() else None))
    stack = paths.for_var(var)
    figures: list[Figure] = []
    failed: list[str] = []
    try:
        with EmbeddedServices(stack):
            env = {**os.environ, "RETRACE_VAR": str(var), "RETRACE_ENV": "test", "VALKEY_URL": stack.valkey_url}
            subprocess.run(
                [sys.executable, "manage.py", "migrate", "--no-input", "--verbosity", "0"],
                cwd=ROOT,
                env={**env, "DATABASE_URL": stack.database_url},
                check=True,
            )
            for name in names_ or names():
                copy = f"bench_{name}"
                _copy_database(stack, copy)
                measured_figures, status = _measure(name, size, {**env, "DATABASE_URL": stack.database_url_for(copy)})
                figures += measured_figures
                failed += [name] if status else []
    finally:
        shutil.rmtree(var, ignore_errors=True)
    print(f"\n{size.items:,} items, {size.trajectories:,} trajectories of {size.steps} steps\n{table(figures)}")
    if failed:
        print(f"Could not be measured: {', '.join(failed)}")
    return 1 if failed else 0


def _copy_database(stack: paths.StackPaths, name: str) -> None:
    with psycopg.connect(stack.database_url_for("postgres"), autocommit=True) as connection:
        template = sql.Identifier(paths.DATABASE_NAME)
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), template))


def _measure(name: str, size: Size, env: dict[str, str]) -> tuple[list[Figure], int]:
    """Run one benchmark in a child process and pass on its figures as they arrive. Returns them and the exit status."""
    measured_figures = []
    command = [sys.executable, "-m", "bench", "--child", name, str(size.items)]
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            print(line, end="", flush=True)
            if line.startswith("{"):
                figure = json.loads(line)
                figure.pop("holds")
                measured_figures.append(Figure(with_=figure.pop("with"), **figure))
    return measured_figures, child.returncode


def child(name: str, items: int) -> None:
    """Run one benchmark, in the process started for it by `main`."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")
    django.setup()
    from bench.columns import give_defaults
    from workers.preload import load

    give_defaults()
    measurement = importlib.import_module(f"bench.{name}")
    load()
    for figure in measurement.measure(Size(items)):
        print(figure.as_json(), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1:] in (["-h"], ["--help"]):
        print(f"{__doc__}\nSIZE: {', '.join(SIZES)} or a number of items. NAME: {', '.join(names())}.")
    else:
        sys.exit(main(sys.argv[1:]))
