"""Problems that prevent a start, and their messages."""

import os
import shutil
import socket
from collections import namedtuple
from pathlib import Path

import psycopg
import pytest

from apps.common.stack import paths, ports, services
from apps.common.stack.errors import AlreadyRunning, PortTaken, StackError
from apps.common.stack.postgres import Postgres
from apps.common.stack.services import EmbeddedServices


def some_stack(folder: Path) -> paths.StackPaths:
    return paths.for_var(folder / "var")


def test_socket_paths_fit_the_kernel_limit_however_deep_the_folder() -> None:
    stack = paths.for_var(Path("/a" * 200))
    assert len(str(stack.postgres_sockets / ".s.PGSQL.5432.lock")) <= 107
    assert len(str(stack.valkey_socket)) <= 107


def test_two_folders_never_share_a_socket() -> None:
    assert paths.for_var(Path("/one/var")).valkey_socket != paths.for_var(Path("/two/var")).valkey_socket


def test_a_port_in_use_gives_way_to_the_next_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with ports.listen(host="127.0.0.1", port=taken, or_next_free=True) as listener:
            assert listener.getsockname()[1] != taken
        with pytest.raises(PortTaken, match=f"Port {taken} on 127.0.0.1 is in use"):
            ports.listen(host="127.0.0.1", port=taken, or_next_free=False)


def test_an_address_of_another_machine_is_refused_plainly() -> None:
    with pytest.raises(StackError, match=r"Cannot listen on 192\.0\.2\.1:8000: Cannot assign requested address"):
        ports.listen(host="192.0.2.1", port=8000, or_next_free=True)


def test_the_lock_names_its_holder_and_goes_with_it(tmp_path: Path) -> None:
    with services.acquire(tmp_path / "run.lock") as held:
        held.announce("http://127.0.0.1:8123")
        with (
            pytest.raises(AlreadyRunning, match=rf"at http://127\.0\.0\.1:8123 \(process {os.getpid()}\)"),
            services.acquire(tmp_path / "run.lock"),
        ):
            pass
    with services.acquire(tmp_path / "run.lock"):
        pass


def test_a_full_disk_is_refused_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9 - 10**6, 10**6))
    with pytest.raises(StackError, match="has 1 MB left; Retrace needs 500 MB"):
        services.prepare(some_stack(tmp_path))


def test_a_socket_folder_that_someone_else_prepared_is_refused(tmp_path: Path) -> None:
    stack = some_stack(tmp_path)
    stack.runtime.symlink_to(tmp_path)
    try:
        with pytest.raises(StackError, match="exists and is not ours"):
            services.prepare(stack)
    finally:
        stack.runtime.unlink()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "var").write_text("a file in the way")
    with pytest.raises(StackError, match=r"Cannot make .*/var: File exists"):
        services.prepare(some_stack(tmp_path))


@pytest.mark.stack
def test_data_survives_and_stale_lock_files_do_not_matter(tmp_path: Path) -> None:
    stack = some_stack(tmp_path)
    with EmbeddedServices(stack, durable=False), psycopg.connect(stack.database_url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    # After a crash, the pid may belong to a running program that isn't a database: this test.
    (stack.postgres_data / "postmaster.pid").write_text(f"{os.getpid()}\n{stack.postgres_data}\n0\n5432\n\n\n\nready\n")
    stack.postgres_sockets.mkdir(parents=True)
    (stack.postgres_sockets / ".s.PGSQL.5432.lock").write_text(f"{os.getpid()}\n")
    stack.valkey_socket.touch()
    with EmbeddedServices(stack, durable=False), psycopg.connect(stack.database_url) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)


@pytest.mark.stack
def test_a_database_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    stack = some_stack(tmp_path)
    with EmbeddedServices(stack, durable=False):
        pass
    (stack.postgres_data / "PG_VERSION").write_text("12\n")
    with pytest.raises(StackError, match=r"(?s)PostgreSQL ended while starting.*initialized by PostgreSQL version 12"):
        EmbeddedServices(stack, durable=False).__enter__()


@pytest.mark.stack
def test_a_database_that_outlived_its_supervisor_is_closed_first(tmp_path: Path) -> None:
    stack = some_stack(tmp_path)
    services.prepare(stack)
    first, second = Postgres(stack, durable=False), Postgres(stack, durable=False)
    first.start()
    old = first.process
    assert old is not None
    try:
        second.start()
        assert old.poll() == 0
        with psycopg.connect(stack.database_url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        first.stop()
        second.stop()
