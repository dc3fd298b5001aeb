"""What the worker reports to a trainer about episodes that others played."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.utils.timezone import now

from apps.accounts.models import Role
from apps.gateway import sessions
from apps.gateway.models import Call
from apps.training import episodes
from apps.training.models import Run
from contract.episodes import Batch, EpisodeFolder, WantedEpisode
from contract.trajectory import Task
from tests import factories
from workers.bridge.runner_episodes import RunnerEpisodes

pytestmark = pytest.mark.django_db

SAID = {"role": "assistant", "content": "Done."}
ASKED = {"role": "user", "content": "Go."}


def nested(depth: int) -> Any:
    return json.loads("[" * depth + "]" * depth)


@pytest.mark.parametrize(
    ("report", "is_told"),
    [
        ({"messages": [ASKED]}, True),
        ({"messages": [{**ASKED, "content": [{"type": "text", "text": "Go.", "more": nested(249)}]}]}, False),
        ({"messages": [ASKED], "tools": [{"type": "function", "function": {"name": "f", "more": nested(249)}}]}, None),
        ({"messages": [{"role": "assistant", "content": 5, "tool_calls": "zz"}, ASKED]}, None),
        ({"messages": [ASKED], "reply": {**SAID, "tool_calls": [5, {"function": {"name": 7}}]}}, None),
        ({"messages": [ASKED], "reply": {"role": 5, "content": {"a": nested(240)}}}, None),
    ],
)
def test_what_an_agent_said_ends_no_training_run(tmp_path: Path, report: dict[str, Any], is_told: bool | None) -> None:
    researcher = factories.member(Role.RESEARCHER)
    run = factories.run(of=researcher.workspace, algorithm=Run.Algorithm.GRPO, state=Run.State.RUNNING)
    wanted = (WantedEpisode(str(uuid4()), Task("t", "Go."), 0),)
    batch = Batch(str(uuid4()), "step 1", "http://127.0.0.1:1/x/v1", lease_seconds=60, most_calls=7, episodes=wanted)
    folder = EpisodeFolder(tmp_path)
    folder.open(batch)
    worker = RunnerEpisodes(run, tmp_path)
    worker.serve_requests()
    lease = episodes.lease(member=researcher, runner="r")
    assert lease is not None
    reply = report.pop("reply", SAID)
    Call.objects.create(
        **{"tools": None, **report},
        session=lease.opened.session,
        status=Call.Status.OK,
        request={},
        reply={"choices": [{"message": reply, "finish_reason": "stop"}]},
        http_status=200,
        body_digest=b"b",
        tools_digest=b"t",
        chat_digest=b"c",
        seconds=0.1,
        began_at=now(),
        untrainable="No ids.",
    )
    sessions.finish_session(session=lease.opened.session, reward=1.0)
    worker._next_poll = 0.0
    worker.serve_requests()
    [(episode_id, result)] = folder.answers(batch, but=set())
    assert episode_id == wanted[0].id
    if is_told is not None:
        assert (result is not None) is is_told
