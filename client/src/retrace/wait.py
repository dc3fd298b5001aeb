"""Waits for long operations by polling."""

from __future__ import annotations

import time
from typing import TypeVar

from retrace.core.flow import Flow, pause
from retrace.core.replies import parsed
from retrace.core.request import OnProgress, Request
from retrace.core.retries import Retries, exchange
from retrace.errors import JobFailed, RetraceError
from retrace.models.answer import Waitable

W = TypeVar("W", bound=Waitable)
FIRST_SECONDS = 0.2
MAX_SECONDS = 5.0


def wait_for(
    job: W, *, retries: Retries, timeout: float | None, progress: OnProgress | None, is_checked: bool
) -> Flow[W]:
    """Poll `job` until it's over, at increasing intervals. Raises JobFailed, or RetraceError after `timeout` seconds."""
    deadline = None if timeout is None else time.monotonic() + timeout
    request, seconds = Request("GET", job.path), FIRST_SECONDS
    while True:
        if progress:
            progress(job.progress)
        if job.is_over:
            break
        left = float("inf") if deadline is None else deadline - time.monotonic()
        if left <= 0:
            raise RetraceError(
                f"{job.path} wasn't over after {timeout:g} seconds. It goes on; wait again, or cancel it."
            )
        yield from pause(min(seconds, left))
        seconds = min(MAX_SECONDS, seconds * 1.5)
        job = parsed(request, (yield from exchange(request, retries)), type(job))
    if is_checked and job.problem:
        raise JobFailed(job.problem, job)
    return job
