"""A stack of the benchmark's own: PostgreSQL and Valkey in a folder that goes away."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def fresh_stack() -> Iterator[Path]:
    """Start empty services, migrate, and point Django at them. Import models only inside the block."""
    var = Path(tempfile.mkdtemp(prefix="retrace-bench-"))
    from apps.common.stack import paths
    from apps.common.stack.services import EmbeddedServices

    stack = paths.for_var(var)
    os.environ |= {
        "RETRACE_VAR": str(var),
        "DJANGO_SETTINGS_MODULE": "apps.settings",
        "DATABASE_URL": stack.database_url,
        "VALKEY_URL": stack.valkey_url,
        "DEBUG": "0",
        "LOG_LEVEL": "WARNING",
    }
    try:
        with EmbeddedServices(stack, durable=True):
            import django
            from django.core.management import call_command

            django.setup()
            call_command("migrate", verbosity=0)
            yield var
    finally:
        shutil.rmtree(var, ignore_errors=True)
        shutil.rmtree(stack.runtime, ignore_errors=True)
