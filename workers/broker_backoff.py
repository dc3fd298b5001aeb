"""Lets a worker wait indefinitely for its broker instead of exiting."""

import time
from typing import Any

from celery.utils.log import get_logger
from celery.worker.consumer import Consumer
from celery.worker.state import maybe_shutdown

logger = get_logger(__name__)

FIRST_SECONDS = 1.0
MAX_SECONDS = 30.0
RESET_AFTER_SECONDS = 60.0
"""After this long without trouble, the backoff resets."""
LOG_EVERY_SECONDS = 60.0
TICK_SECONDS = 0.25


class Backoff:
    """Exponential backoff with a maximum delay, reset after a quiet period."""

    def __init__(self) -> None:
        self._seconds = FIRST_SECONDS
        self._waited_at: float | None = None
        self._logged_at: float | None = None

    def next_wait(self) -> float:
        now = time.monotonic()
        if self._waited_at is not None and now - self._waited_at > self._seconds + RESET_AFTER_SECONDS:
            self._seconds = FIRST_SECONDS
        wait, self._waited_at = self._seconds, now
        self._seconds = min(2 * self._seconds, MAX_SECONDS)
        return wait

    def may_log(self) -> bool:
        """Rate limit for log lines: the first immediately, then occasionally."""
        now = time.monotonic()
        if self._logged_at is not None and now - self._logged_at < LOG_EVERY_SECONDS:
            return False
        self._logged_at = now
        return True


class BackoffConsumer(Consumer):
    """Celery's consumer with a backoff between retries, logged occasionally."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._backoff = Backoff()

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        self._wait(exc)

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        super().on_connection_error_after_connected(exc)
        self._wait(exc)

    def _wait(self, exc: Exception) -> None:
        wait = self._backoff.next_wait()
        if self._backoff.may_log():
            logger.error(
                "The broker is down or refuses messages: %s. Retrying until it accepts them; waiting tasks are not lost.",
                exc,
            )
        until = time.monotonic() + wait
        while time.monotonic() < until:
            maybe_shutdown()
            time.sleep(TICK_SECONDS)
