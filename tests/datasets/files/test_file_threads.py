"""Downloads from a file store that hangs."""

import asyncio
import threading
from typing import Any

import pytest

from apps.datasets.files import export
from apps.datasets.files.export import Span, pieces


def test_downloads_that_hang_leave_the_threads_of_everything_else_free(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    class Hanging:
        def open(self, *_: Any) -> Any:
            gate.wait(20)
            raise FileNotFoundError

    monkeypatch.setattr(export, "default_storage", Hanging())

    async def first_piece() -> bytes:
        return await anext(pieces("x", Span(0, 1)))

    async def while_they_hang() -> str:
        downloads = [asyncio.create_task(first_piece()) for _ in range(100)]
        await asyncio.sleep(0.2)
        try:
            return await asyncio.wait_for(asyncio.to_thread(lambda: "free"), 5)
        finally:
            gate.set()
            await asyncio.gather(*downloads, return_exceptions=True)

    assert asyncio.run(while_they_hang()) == "free"
