"""A worker is killed during a batch of judging, on the live stack."""

import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils.timezone import now

from apps.annotation.judges.enrollment import send_judge
from apps.annotation.models import Assignment, Judge, JudgeAnswer, Preference
from apps.policies.models import Endpoint, Policy
from tests import factories
from tests.annotation import builders
from tests.live import LiveStack

pytestmark = pytest.mark.stack
ITEMS = 40
PATIENCE_SECONDS = 120


def wait(condition: Callable[[Judge], bool]) -> Judge:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition(judge := Judge.objects.get()):
        assert time.monotonic() < deadline, f"{judge.state}: {judge.answered} answered, {judge.error}"
        time.sleep(0.1)
    return judge


@pytest.mark.parametrize("mode", ["join", "prelabel"])
def test_what_a_killed_worker_had_judged_stands_and_the_rest_is_judged_once(live_stack: LiveStack, mode: str):
    workspace = factories.workspace()
    queue = builders.queue(of=workspace, items=ITEMS)
    program = Path(__file__).with_name("judge_server.py")
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        endpoint = Endpoint.objects.create(workspace=workspace, name="server", base_url=url)
        policy = factories.policy(
            of=workspace, kind=Policy.Kind.ENDPOINT, name="lamp", location="lamp", endpoint=endpoint
        )
        send_judge(queue=queue, policy=policy, mode=mode, prompt="Prefer what works.", requests_a_minute=600, by=None)
        wait(lambda judge: judge.answered >= 5)
        live_stack.programs["worker-remote"].kill()
        stopped = Judge.objects.get()
        assert 5 <= stopped.answered < ITEMS, "it was killed midway"
        assert stopped.state == Judge.State.RUNNING
        before = set(JudgeAnswer.objects.values_list("pk", flat=True))
        Judge.objects.update(leased_until=now() - timedelta(seconds=1), requests_a_minute=100_000)  # a minute passes
        live_stack.restart("worker-remote")
        judge = wait(lambda judge: judge.state == Judge.State.DONE)
        server.terminate()
    assert judge.attempt >= 2
    assert (judge.answered, judge.failed, JudgeAnswer.objects.count()) == (ITEMS, 0, ITEMS)
    assert before < set(JudgeAnswer.objects.values_list("pk", flat=True))
    expected = ITEMS if mode == "join" else 0
    assert Preference.objects.values("item").distinct().count() == Preference.objects.count() == expected
    assert Assignment.objects.count() == expected
    assert judge.prompt_tokens + 200 >= ITEMS * 200  # the cost of the pair in progress may be unrecorded
    assert judge.prompt_tokens <= ITEMS * 200 + 200
