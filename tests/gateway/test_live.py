"""The gateway of the running stack, used by agents while a web process is killed."""

import threading
import time

import httpx
import pytest

from apps.accounts.models import Role
from apps.gateway import sessions
from apps.gateway.models import Call
from apps.policies import registration
from tests import factories
from tests.gateway.upstream import Upstream
from tests.live import LiveStack
from tests.white_space import collapsed

AGENTS = 6
TURNS = 8


class Player(threading.Thread):
    """An agent whose library retries when a connection breaks, and marks the retry."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__(daemon=True)
        self.url, self.key = f"{url}/gateway/v1/chat/completions", key
        self.heard = 0
        self.problem = ""

    def run(self) -> None:
        messages = [{"role": "user", "content": "Where is the lamp?"}]
        for turn in range(TURNS):
            reply = self.ask(messages)
            if reply is None:
                return
            messages += [reply, {"role": "user", "content": f"And then? ({turn})"}]
            self.heard += 1

    def ask(self, messages: list[dict[str, str]]) -> dict[str, str] | None:
        for attempt in range(60):
            headers = {"Authorization": f"Bearer {self.key}", "x-stainless-retry-count": str(attempt)}
            try:
                response = httpx.post(self.url, json={"messages": messages}, headers=headers, timeout=30)
            except httpx.TransportError:
                time.sleep(0.5)
                continue
            if response.status_code == 200:
                message: dict[str, str] = response.json()["choices"][0]["message"]
                return message
            self.problem = response.text
            return None
        self.problem = "no answer in 60 tries"
        return None


def test_nothing_is_lost_or_doubled_where_a_web_process_is_killed(live_stack: LiveStack, upstream: Upstream) -> None:
    member = factories.member(Role.RESEARCHER)
    policy = registration.register_served(
        workspace=member.workspace, name="clerk", base_url=upstream.url, model="served", by=member.user
    )
    opened = [sessions.open_session(workspace=member.workspace, policy=policy, by=member.user) for _ in range(AGENTS)]
    players = [Player(live_stack.url, session.key) for session in opened]
    for player in players:
        player.start()
    while sum(player.heard for player in players) < AGENTS * 2:
        time.sleep(0.05)
    live_stack.programs["web-1"].kill()
    live_stack.restart("web-1")
    for player in players:
        player.join(120)
    assert [(player.heard, player.problem) for player in players] == [(TURNS, "")] * AGENTS
    for session in opened:
        calls = list(Call.objects.filter(session=session.session).order_by("id"))
        assert [call.status for call in calls] == ["ok"] * TURNS
        assert [call.parent_id for call in calls] == [None, *(call.pk for call in calls[:-1])]
        sessions.finish_session(session=session.session, success=True)
        assert session.session.paths.get().trajectory.step_count == TURNS


@pytest.mark.usefixtures("live_stack")
def test_a_sessions_page_is_told_of_each_call_and_of_its_end(live_stack: LiveStack, upstream: Upstream) -> None:
    import websockets.sync.client
    from django.test import Client

    member = factories.member(Role.RESEARCHER)
    policy = registration.register_served(
        workspace=member.workspace, name="clerk", base_url=upstream.url, model="served", by=member.user
    )
    opened = sessions.open_session(workspace=member.workspace, policy=policy, by=member.user)
    client = Client()
    client.force_login(member.user)
    address = live_stack.url.replace("http", "ws") + f"/ws/sessions/{opened.session.pk}/"
    cookie = f"sessionid={client.cookies['sessionid'].value}"
    with websockets.sync.client.connect(
        address, additional_headers={"Cookie": cookie, "Origin": live_stack.url}
    ) as socket:
        Player(live_stack.url, opened.key).ask([{"role": "user", "content": "Where is the lamp?"}])
        assert "1 call so far" in collapsed(str(socket.recv(timeout=20)))
        sessions.finish_session(session=opened.session, success=True)
        assert "Open the replay" in collapsed(str(socket.recv(timeout=20)))
