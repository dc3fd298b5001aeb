"""Threads that read stored files and compress them, apart from those of everything else: a slow disk or bucket may hold them for minutes."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

THREADS = ThreadPoolExecutor(16, thread_name_prefix="files")


async def in_file_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of `work`."""
    return await asyncio.get_running_loop().run_in_executor(THREADS, partial(work, *args, **kwargs))
