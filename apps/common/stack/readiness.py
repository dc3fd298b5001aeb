"""Waits until the parts respond: a page over HTTP, and a ping from each worker."""

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable

from apps.common.stack.errors import StackError
from apps.common.stack.logs import last_lines
from apps.common.stack.programs import Program

START_SECONDS = 120  # several Python programs importing at once on a slow disk


def page_answers(address: str) -> Callable[[], bool]:
    """Whether `<address>/healthz` returns 200, which includes a database check."""

    def check() -> bool:
        try:
            with urllib.request.urlopen(f"{address}/healthz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    return check


def workers_respond(queues: Iterable[str]) -> Callable[[], bool]:
    """Whether a worker of each queue answers a ping through the broker."""
    missing = set(queues)

    def check() -> bool:
        from apps.common.broker import app

        for answer in app.control.ping(timeout=0.5, limit=len(missing)) or []:
            missing.difference_update(name.split("@")[0] for name in answer)
        return not missing

    return check


def wait_for(
    programs: Iterable[Program], *checks: Callable[[], bool], sleep: Callable[[float], None] = time.sleep
) -> None:
    """Return once every check succeeds. Raises StackError if a program ends meanwhile, or on timeout."""
    deadline = time.monotonic() + START_SECONDS
    waiting = list(checks)
    while waiting:
        for program in programs:
            if program.process is not None and (status := program.process.poll()) is not None:
                raise StackError(
                    f"{program.name} ended while starting (exit status {status}). "
                    f"The end of {program.log}:\n{last_lines(program.log)}"
                )
        waiting = [check for check in waiting if not check()]
        if waiting and time.monotonic() > deadline:
            logs = "\n".join(f"{program.log}:\n{last_lines(program.log)}" for program in programs)
            raise StackError(f"Not every part answers after {START_SECONDS} s. The ends of the logs:\n{logs}")
        sleep(0.1)
