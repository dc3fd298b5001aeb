"""Paths of the embedded services. Pure: nothing here touches the disk."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

DATABASE_NAME = "retrace"
DATABASE_USER = "retrace"
DATABASE_PORT = 5432  # names the socket file only; nothing listens on TCP


@dataclass(frozen=True, kw_only=True)
class StackPaths:
    """The folders, sockets and addresses of one embedded stack."""

    var: Path
    """Persistent data: databases, files, logs."""
    runtime: Path
    """Sockets. A short path, because the kernel limits Unix socket paths to 107 bytes."""

    @property
    def logs(self) -> Path:
        return self.var / "logs"

    @property
    def lock(self) -> Path:
        """Lock file, held with flock while a supervisor runs; contains its pid and address."""
        return self.var / "run.lock"

    @property
    def postgres_data(self) -> Path:
        return self.var / "postgres"

    @property
    def postgres_sockets(self) -> Path:
        return self.runtime / "postgres"

    @property
    def valkey_data(self) -> Path:
        return self.var / "valkey"

    @property
    def valkey_socket(self) -> Path:
        return self.runtime / "valkey.sock"

    @property
    def database_url(self) -> str:
        return self.database_url_for(DATABASE_NAME)

    def database_url_for(self, name: str) -> str:
        """A DSN that both psycopg and `DATABASE_URL` understand."""
        query = urlencode({"host": str(self.postgres_sockets), "port": DATABASE_PORT}, safe="/")
        return f"postgresql://{DATABASE_USER}@/{quote(name)}?{query}"

    @property
    def valkey_url(self) -> str:
        return f"unix://{quote(str(self.valkey_socket))}?db=0"


def for_base(base: Path) -> StackPaths:
    """The stack of the checkout at `base`, or of the folder that RETRACE_VAR names."""
    return for_var(Path(os.environ.get("RETRACE_VAR") or base / "var"))


def for_var(var: Path) -> StackPaths:
    """The stack whose data is in `var`. Two different folders never share a socket."""
    var = Path(os.path.abspath(var))
    key = hashlib.sha256(os.fsencode(var)).hexdigest()[:12]
    # Always /tmp, not TMPDIR: two shells of one user must find the same sockets, and TMPDIR may be too long.
    # `folders` refuses it if another user owns it, so nobody can plant it.
    return StackPaths(var=var, runtime=Path(f"/tmp/retrace-{os.getuid()}-{key}"))
