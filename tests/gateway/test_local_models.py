"""Sessions of policies that were never published are answered by this installation's own server."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import uvicorn

from apps.accounts.models import Membership
from apps.gateway import sessions
from apps.gateway.models import Call, Join
from apps.gateway.targets import answering, target_of
from apps.policies.models import Policy
from tests import factories
from tests.gateway.conftest import Agent
from tests.trainer.policies import save_policy
from trainer.serving.local_models import LocalModels

ASK = {"role": "user", "content": "Find the budget."}
KEY = "the-gateways-key"


@pytest.fixture
def models(tmp_path: Path, settings: Any) -> Iterator[str]:
    """The URL of a server of small models, with the runs below `tmp_path`."""
    settings.RUNS_DIR = tmp_path
    application = LocalModels(tmp_path, key=KEY).application()
    server = uvicorn.Server(uvicorn.Config(application, port=0, lifespan="off", log_level="warning"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    settings.LOCAL_MODELS_URL = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    settings.LOCAL_MODELS_KEY = KEY
    yield settings.LOCAL_MODELS_URL
    server.should_exit = True
    thread.join(10)


def trained(member: Membership, runs: Path, *, parameters: int = 20_000) -> Policy:
    run = uuid4()
    save_policy(runs / str(run) / "model")
    return factories.trained_policy(of=member.workspace, run_id=run, settings={"parameters": parameters})


def test_a_policy_that_a_run_made_answers_token_by_token(
    gateway_url: str, models: str, researcher: Membership, tmp_path: Path
) -> None:
    policy = trained(researcher, tmp_path)
    opened = sessions.open_session(workspace=policy.workspace, policy=policy, by=researcher.user)
    with (agent := Agent(gateway_url, opened)).http:
        first = agent.reply(ASK, max_tokens=5)
        agent.reply(ASK, first, {"role": "user", "content": "And now?"}, max_tokens=5)
    before, after = Call.objects.order_by("id")
    assert (before.untrainable, after.untrainable) == ("", "")
    assert (after.parent_id, after.join) == (before.pk, Join.TOKENS)


def test_an_unknown_model_or_key_is_the_installations_fault_and_not_the_agents(
    gateway_url: str, models: str, researcher: Membership, tmp_path: Path, settings: Any
) -> None:
    policy = trained(researcher, tmp_path)
    opened = sessions.open_session(workspace=policy.workspace, policy=policy, by=researcher.user)
    settings.LOCAL_MODELS_KEY = "another"
    with (agent := Agent(gateway_url, opened)).http:
        assert not agent.ask(ASK).is_success
    assert httpx.get(f"{models}/models").status_code == 401


@pytest.mark.parametrize("reason", ["no server", "too large", "no weights", "another's run"])
def test_where_it_cannot_answer_a_session_is_refused(
    models: str, researcher: Membership, tmp_path: Path, settings: Any, reason: str
) -> None:
    policy = trained(researcher, tmp_path)
    assert list(answering(researcher)) == [policy]
    if reason == "no server":
        settings.LOCAL_MODELS_URL = ""
    elif reason == "too large":
        settings.LOCAL_MODELS_PARAMETERS = 19_999
    elif reason == "no weights":
        policy = factories.trained_policy(of=researcher.workspace, settings={"parameters": 20_000})
    else:
        policy.made_by.workspace = factories.workspace()
    assert target_of(policy) is None
    with pytest.raises(sessions.NotServed, match="isn't served"):
        sessions.open_session(workspace=policy.workspace, policy=policy, by=researcher.user)
