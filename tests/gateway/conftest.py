"""The gateway, served by uvicorn in a thread of the test, in front of a real model server."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from apps.accounts.models import Membership, Role
from apps.gateway import asgi, sessions
from apps.gateway.models import Session
from apps.gateway.recorder import Recorder
from apps.gateway.upstream import Upstreams
from apps.policies import registration
from tests import factories
from tests.gateway.upstream import Upstream


@pytest.fixture
def gateway_url(transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The gateway's URL."""
    monkeypatch.setattr(asgi, "recorder", Recorder(tmp_path / "spool"))
    monkeypatch.setattr(asgi, "upstreams", Upstreams())
    config = uvicorn.Config(asgi.gateway, port=0, lifespan="off", log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}{asgi.PREFIX}"
    server.should_exit = True
    thread.join(10)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as server:
        yield server


@pytest.fixture
def researcher(transactional_db: None) -> Membership:
    return factories.member(Role.RESEARCHER)


@pytest.fixture
def open_session(researcher: Membership, upstream: Upstream) -> Callable[..., sessions.NewSession]:
    """Opens a session of a policy that `upstream` serves under the name "served"."""
    policy = registration.register_served(
        workspace=researcher.workspace, name="clerk", base_url=upstream.url, model="served", by=researcher.user
    )

    def opened(**fields: Any) -> sessions.NewSession:
        return sessions.open_session(workspace=policy.workspace, policy=policy, by=researcher.user, **fields)

    return opened


class Agent:
    """A simple agent loop that calls the gateway."""

    def __init__(self, url: str, opened: sessions.NewSession) -> None:
        self.session: Session = opened.session
        self.http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {opened.key}"}, timeout=30)

    def ask(self, *messages: dict[str, Any], headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
        body = {"model": "whatever", "messages": list(messages), **more}
        return self.http.post("chat/completions", json=body, headers=headers)

    def reply(self, *messages: dict[str, Any], **more: Any) -> dict[str, Any]:
        """The message in the reply."""
        response = self.ask(*messages, **more)
        assert response.status_code == 200, response.text
        message: dict[str, Any] = response.json()["choices"][0]["message"]
        return message


@pytest.fixture
def agent(gateway_url: str, open_session: Callable[..., sessions.NewSession]) -> Iterator[Agent]:
    with (agent_ := Agent(gateway_url, open_session())).http:
        yield agent_
