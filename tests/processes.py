"""Helpers that check which processes are still running."""

import time
from collections.abc import Iterable

import psutil


def alive(family: Iterable[psutil.Process]) -> list[str]:
    """Command lines of the processes still running. Zombies count as ended, even if nobody reaps them."""
    found = []
    for process in family:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()) or str(process.pid))
        except psutil.NoSuchProcess:
            continue
    return found


def wait_until_gone(family: Iterable[psutil.Process], seconds: float) -> None:
    """Fail if one of them is still running after `seconds`."""
    deadline = time.monotonic() + seconds
    while left := alive(family):
        assert time.monotonic() < deadline, f"still running after {seconds} s: {left}"
        time.sleep(0.05)
