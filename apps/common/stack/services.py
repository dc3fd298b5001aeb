"""The embedded database and broker together, for `run`, the tests and the benchmarks."""

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from apps.common.stack import folders
from apps.common.stack.paths import StackPaths
from apps.common.stack.postgres import Postgres
from apps.common.stack.valkey import Valkey


class EmbeddedServices:
    """PostgreSQL and Valkey for as long as the `with` block lasts. Start it from the main thread."""

    def __init__(self, paths: StackPaths, *, durable: bool = True) -> None:
        self.paths = paths
        self.postgres = Postgres(paths, durable=durable)
        self.valkey = Valkey(paths, durable=durable)
        self._stops = ExitStack()

    def __enter__(self) -> Self:
        folders.prepare(self.paths)
        with ExitStack() as undo:
            for part in (self.postgres, self.valkey):
                undo.callback(part.stop)
                part.start()
            self._stops = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stops.close()
