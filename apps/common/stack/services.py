"""The embedded database and broker together, for `run`, the tests and the benchmarks."""

import shutil
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from apps.common.stack import folders, lock
from apps.common.stack.paths import StackPaths
from apps.common.stack.postgres import Postgres
from apps.common.stack.valkey import Valkey


class EmbeddedServices:
    """PostgreSQL and Valkey for as long as the `with` block lasts. Start it from the main thread.

    Either is left out when a server of the user's own takes its place.
    """

    def __init__(self, paths: StackPaths, *, durable: bool = True, postgres: bool = True, valkey: bool = True) -> None:
        self.paths = paths
        self.parts: list[Postgres | Valkey] = []
        if postgres:
            self.parts.append(Postgres(paths, durable=durable))
        if valkey:
            self.parts.append(Valkey(paths, durable=durable))
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            folders.prepare(self.paths)
            self.lock = undo.enter_context(lock.hold(self.paths.lock))
            undo.callback(shutil.rmtree, self.paths.runtime, ignore_errors=True)
            for part in self.parts:
                undo.callback(part.stop)
                part.start()
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()
