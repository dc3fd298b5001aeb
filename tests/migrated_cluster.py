"""A PostgreSQL cluster with a migrated database, kept in var/ for later test sessions, since migrating takes seconds.

Every worker's database is a copy of it (Django's TEST TEMPLATE).
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from apps.common.stack.paths import DATABASE_NAME, StackPaths
from apps.common.stack.services import EmbeddedServices

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "var" / "test-clusters"
TEMPLATE = DATABASE_NAME
"""The migrated database."""


def start(stack: StackPaths) -> EmbeddedServices:
    """Start the services of a test session, with the migrated database. Stop them with `__exit__`."""
    kept = FOLDER / _digest()
    if kept.exists():
        _copy(kept, stack.postgres_data)
        return EmbeddedServices(stack, durable=False).__enter__()
    with EmbeddedServices(stack, durable=False):
        environment = {**os.environ, "DATABASE_URL": stack.database_url}
        subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity=0"], cwd=ROOT, env=environment, check=True)
    _keep(stack.postgres_data, kept)
    return EmbeddedServices(stack, durable=False).__enter__()


def _digest() -> str:
    """A digest of what determines the migrated database: the migrations, and the installed packages."""
    files = [ROOT / "requirements.txt", *sorted((ROOT / "apps").glob("*/migrations/*.py"))]
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _keep(cluster: Path, kept: Path) -> None:
    """Keep a stopped cluster in place of older ones. Of two concurrent sessions, the first one's stays."""
    unfinished = FOLDER / f"unfinished-{os.getpid()}"
    FOLDER.mkdir(parents=True, exist_ok=True)
    older = [folder for folder in FOLDER.iterdir() if not folder.name.startswith("unfinished-")]
    _copy(cluster, unfinished)
    try:
        unfinished.rename(kept)
    except OSError:
        shutil.rmtree(unfinished)
    for folder in older:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "--archive", "--reflink=auto", str(source), str(target)], check=True)
