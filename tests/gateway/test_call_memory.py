"""A process limits the memory for calls of one workspace, however many there are and however slowly they arrive."""

import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from apps.accounts.models import Membership, Role
from apps.gateway import asgi, sessions
from apps.gateway.call_memory import MAX_OF_ALL, MAX_OF_ONE, PIECES, RESERVED, SMALL, CallMemory, MemoryUse
from apps.gateway.models import Call
from apps.policies import registration
from tests import factories
from tests.gateway.conftest import Agent
from tests.gateway.upstream import Upstream, says

ASK = {"role": "user", "content": "Where is the lamp?"}
LARGEST = 4000


@pytest.fixture(autouse=True)
def small(settings: Any) -> None:
    settings.GATEWAY_MAX_BYTES = LARGEST


@pytest.fixture
def another(gateway_url: str, upstream: Upstream) -> Agent:
    """An agent of another workspace."""
    member = factories.member()
    policy = registration.register_served(
        workspace=member.workspace, name="clerk", base_url=upstream.url, model="served", by=member.user
    )
    return Agent(gateway_url, sessions.open_session(workspace=member.workspace, policy=policy, by=member.user))


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(3000):
        if is_so():
            return
        time.sleep(0.01)
    pytest.fail("it never was so")


def begin(url: str, key: str) -> socket.socket:
    """A request of almost the maximum size whose body never ends."""
    where = urlsplit(url)
    connection = socket.create_connection((str(where.hostname), where.port or 0))
    head = f"POST {where.path}/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Length: {LARGEST}\r\n\r\n"
    connection.sendall(head.encode() + b" " * (LARGEST - 100))
    return connection


def test_requests_that_do_not_end_keep_only_their_own_workspace_waiting(
    gateway_url: str, open_session: Callable[..., sessions.NewSession], another: Agent
):
    opened = open_session()
    agent = Agent(gateway_url, opened)
    slow = [begin(gateway_url, opened.key) for _ in range(2 * MAX_OF_ONE)]
    until(lambda: asgi.memory_use.total >= MAX_OF_ONE * (LARGEST - 100))
    refused = agent.ask(ASK, {"role": "user", "content": "x" * 1000})
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "crowded")
    assert another.reply(ASK)["content"] == "Done."
    # The other workspace's reply arrives before the memory is released.
    until(lambda: asgi.memory_use.total <= MAX_OF_ONE * LARGEST)
    for connection in slow:
        connection.close()
    until(lambda: not asgi.memory_use.held)
    assert agent.reply(ASK)["content"] == "Done."


def test_replies_count_too(agent: Agent, another: Agent, upstream: Upstream):
    upstream.replies = [says("x" * MAX_OF_ONE * LARGEST), says("Done.")]
    assert agent.ask(ASK).status_code == 502
    assert Call.objects.get(session=agent.session).status == Call.Status.FAILED
    assert another.reply(ASK)["content"] == "Done."
    until(lambda: not asgi.memory_use.held)


def test_a_stream_releases_what_it_held(agent: Agent, upstream: Upstream):
    with agent.http.stream("POST", "chat/completions", json={"messages": [ASK], "stream": True}) as response:
        assert b"[DONE]" in b"".join(response.iter_raw())
    until(lambda: not asgi.memory_use.held)


def test_all_together_have_a_limit(settings: Any):
    use = MemoryUse()
    calls = []
    for number in range(MAX_OF_ALL):
        calls.append(CallMemory(use))
        calls[-1].holders = (number // 4,)
    assert all(call.take(LARGEST) for call in calls)
    late = CallMemory(use)
    assert not late.take(LARGEST)
    calls[0].release()
    assert late.take(LARGEST)


def test_small_pieces_are_counted_together(settings: Any):
    settings.GATEWAY_MAX_BYTES = 100 * PIECES
    use = MemoryUse()
    call = CallMemory(use)
    call.holders = ("workspace",)
    totals = []
    for size in (30, 30, 30, 30, 250, 1):
        assert call.take(size)
        totals.append(use.total)
    assert totals == [100, 100, 100, 200, 450, 450]  # never less than is held
    call.release()
    assert (use.held, use.total) == ({}, 0)


def test_what_a_few_hold_leaves_something_for_small_calls_of_others(settings: Any):
    use = MemoryUse()
    for number in range(MAX_OF_ALL):
        many = CallMemory(use)
        many.holders = (number // 4,)
        assert many.take(LARGEST)
    small = [CallMemory(use) for _ in range(100)]
    for number, call in enumerate(small):
        call.holders = (f"workspace {number}",)
    assert sum(call.take(int(SMALL * LARGEST)) for call in small) == RESERVED / SMALL
    assert not small[0].take(1)  # it holds more than little


def test_a_person_has_the_limit_of_one_workspace_in_all_of_theirs():
    use = MemoryUse()
    calls = [CallMemory(use) for _ in range(MAX_OF_ONE + 1)]
    for number, call in enumerate(calls):
        call.holders = (f"workspace {number}", "person")
    assert [call.take(LARGEST) for call in calls] == [True] * MAX_OF_ONE + [False]
    calls[0].release()
    assert calls[-1].take(LARGEST)
    for call in calls:
        call.release()
    assert (use.held, use.total) == ({}, 0)


def test_requests_of_a_person_in_many_workspaces_keep_only_their_own_waiting(
    gateway_url: str, upstream: Upstream, another: Agent
):
    person = factories.member().user
    keys = []
    for _ in range(4):
        member = Membership.objects.create(user=person, workspace=factories.workspace(), role=Role.RESEARCHER)
        policy = registration.register_served(
            workspace=member.workspace, name="clerk", base_url=upstream.url, model="served", by=person
        )
        keys.append(sessions.open_session(workspace=member.workspace, policy=policy, by=person).key)
    slow = [begin(gateway_url, key) for key in keys for _ in range(MAX_OF_ONE)]
    until(lambda: asgi.memory_use.total >= MAX_OF_ONE * (LARGEST - 100))
    time.sleep(0.3)
    assert asgi.memory_use.total <= MAX_OF_ONE * LARGEST
    assert another.reply(ASK)["content"] == "Done."
    for connection in slow:
        connection.close()
    until(lambda: not asgi.memory_use.held)


def test_a_token_names_its_workspace_once(
    gateway_url: str, researcher: Membership, open_session: Callable[..., sessions.NewSession]
):
    agent = Agent(gateway_url, open_session())
    agent.http.headers.update(
        {"Authorization": f"Bearer {factories.token(researcher, 'rt_here')}", "X-Session-Id": "one"}
    )
    answers = [agent.http.post("chat/completions", json={"model": "clerk", "messages": [ASK]}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert list(asgi.recorder._senders.values()) == [(researcher.workspace_id, researcher.user_id)]
