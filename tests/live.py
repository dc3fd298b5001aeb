"""The real stack for end-to-end tests: uvicorn, Celery workers, and the clock as processes, on this session's services.

The processes start with the first test that needs them and serve all later ones. Each test has committed rows
(`transactional_db`), which are removed after it; its remaining tasks are stopped before that.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from django.db import connection

from apps.common.stack import ports, programs, readiness
from apps.common.stack.logs import last_lines
from apps.common.stack.paths import StackPaths
from apps.common.stack.programs import Program
from apps.common.stack.supervisor import stop_together

QUEUES = {"default": 2, "remote": 2, "generate": 1, "train": 1}
IDLE_SECONDS = 10.0


@dataclass(frozen=True)
class LiveStack:
    """The stack's URL and processes: "web-1", "worker-default", "worker-remote", "worker-generate", "worker-train", "clock"."""

    url: str
    programs: dict[str, Program]

    def restart(self, name: str) -> None:
        """Restart a program, whether it's running, was stopped, or was killed, and wait until it responds."""
        program = self.programs[name]
        program.stop()
        program.start()
        self.wait()

    def wait(self) -> None:
        """Wait until every part responds."""
        checks = readiness.page_answers(self.url), readiness.workers_respond(QUEUES)
        readiness.wait_for(self.programs.values(), *checks)


@pytest.fixture(scope="session")
def live_programs(django_db_setup: None, django_db_blocker: object, stack_paths: StackPaths) -> Iterator[LiveStack]:
    """The processes. Tests use `live_stack`."""
    listener = ports.listen(host="127.0.0.1", port=0, or_next_free=False)
    database = stack_paths.database_url_for(connection.settings_dict["NAME"])
    env = programs.environment(
        stack_paths,
        DATABASE_URL=database,
        VALKEY_URL=os.environ["VALKEY_URL"],
        OUTGOING_REFUSED_SERVICES=f"127.0.0.1:{listener.getsockname()[1]}",
    )
    parts = [
        *programs.web(stack_paths, listener=listener.fileno(), count=1, env=env),
        *(programs.worker(stack_paths, queue=queue, concurrency=count, env=env) for queue, count in QUEUES.items()),
        programs.clock(stack_paths, env=env),
    ]
    stack = LiveStack(f"http://127.0.0.1:{listener.getsockname()[1]}", {part.name: part for part in parts})
    try:
        for part in parts:
            part.start()
        stack.wait()
        yield stack
    finally:
        stop_together(parts)
        listener.close()


@pytest.fixture
def live_stack(transactional_db: None, live_programs: LiveStack) -> Iterator[LiveStack]:
    """The running product, on the test's own rows."""
    for name, program in live_programs.programs.items():
        if program.process is None or program.process.poll() is not None:  # an earlier test killed it
            live_programs.restart(name)
    yield live_programs
    _come_to_rest(live_programs)


def _come_to_rest(stack: LiveStack) -> None:
    """Drop queued tasks and end running ones, so that they don't encounter the next test's rows."""
    from workers.app import app

    app.control.purge()
    deadline = time.monotonic() + IDLE_SECONDS
    while busy := _busy(stack):
        if time.monotonic() > deadline:
            for name in busy:
                stack.restart(name)
            break
        time.sleep(0.2)


def _busy(stack: LiveStack) -> list[str]:
    """The workers that are running a task."""
    from workers.app import app

    alive = [name for name, program in stack.programs.items() if program.process and program.process.poll() is None]
    expected = [name for name in alive if name.startswith("worker-")]
    answers = app.control.inspect(timeout=1.0, limit=len(expected)).active() or {}
    return [f"worker-{node.split('@')[0]}" for node, tasks in answers.items() if tasks]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Add the ends of the logs to the report of a failed live test."""
    report = yield
    stack = getattr(item, "funcargs", {}).get("live_stack")
    if report.failed and stack is not None:
        for program in stack.programs.values():
            report.sections.append((f"end of {program.log.name}", last_lines(program.log, 40)))
    return report
