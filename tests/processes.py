"""Checks from outside which processes are still running."""

import time
from collections.abc import Iterable

import psutil


def alive(family: Iterable[psutil.Process]) -> list[str]:
    """The command lines of processes that are still running. Zombies don't count, even if nobody reaps them."""
    commands = []
    for process in family:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                commands.append(" ".join(process.cmdline()) or str(process.pid))
        except psutil.NoSuchProcess:
            continue
    return commands


def wait_until_gone(family: Iterable[psutil.Process], seconds: float) -> None:
    """Fail if one of them is still running after `seconds`."""
    deadline = time.monotonic() + seconds
    while alive_processes := alive(family):
        assert time.monotonic() < deadline, f"still running after {seconds} s: {alive_processes}"
        time.sleep(0.05)
