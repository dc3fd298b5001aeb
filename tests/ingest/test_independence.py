"""The file readers work without Django and without machine-learning libraries."""

import subprocess
import sys

WALK = """
import importlib, pkgutil, sys
import apps.ingest
for module in pkgutil.walk_packages(apps.ingest.__path__, "apps.ingest."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_reading_files_imports_neither_django_nor_torch():
    done = subprocess.run([sys.executable, "-c", WALK], capture_output=True, text=True, check=True, timeout=60)
    imported = set(done.stdout.split())
    assert "apps" in imported
    assert not imported & {"django", "rest_framework", "celery", "psycopg", "torch"}
