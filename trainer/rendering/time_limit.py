"""A time limit for code that may never finish, such as a chat template, which is a program that comes with a model."""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TookTooLong(BaseException):
    """The time limit was exceeded. A BaseException, since callers catch a template's exceptions and try another way to render."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TookTooLong in this thread once `seconds` have passed, between two bytecode instructions: a single C call, such as a regular-expression match, isn't interrupted."""
    thread, deciding, is_over = threading.get_ident(), threading.Lock(), False

    def end() -> None:
        with deciding:
            if not is_over:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TookTooLong))

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with deciding:
            is_over = True
        timer.cancel()
