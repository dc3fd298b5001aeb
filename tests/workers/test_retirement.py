"""Ended publications are removed from their servers, but only after their last requests, whoever was killed at which point."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.utils.timezone import now

from apps.common.stack.paths import StackPaths
from apps.gateway.sessions import finish_session, open_session
from apps.jobs import lifecycle
from apps.jobs.models import JobState, Superseded
from apps.policies.models import Publication
from apps.policies.publication import PUBLICATIONS
from apps.trajectories.rollouts.rollout_batches import start_rollouts
from tests.workers.conftest import ONE, TWO, Team, claimed, done, loaded
from tests.workers.vllm_like import VllmLike
from workers.bridge import retirement
from workers.bridge.publication_job import publish
from workers.bridge.retirement import retire_all
from workers.bridge.rollouts import RolloutJob

ROOT = Path(__file__).resolve().parents[2]
ADAPTER = Publication.Way.ADAPTER


def over(publication: Publication) -> None:
    """Ends the grace period of a replaced publication."""
    Publication.objects.filter(pk=publication.pk).update(ended_at=now() - retirement.GRACE_PERIOD)


@pytest.mark.django_db
def test_what_was_replaced_is_unloaded_after_its_grace(team: Team, server: VllmLike):
    first = team.publishes(team.policy(ONE), ADAPTER, server)
    second = team.publishes(team.policy(TWO), ADAPTER, server)
    assert (retire_all(), server.adapters) == ([], loaded(team.runs, first, second))
    over(first)
    assert (retire_all(), server.adapters) == ([first.served_name], loaded(team.runs, second))
    assert [path.name for path in (team.runs / "served" / "adapters").iterdir()] == [second.served_name]
    assert retire_all() == []  # a second call has nothing to do


@pytest.mark.django_db
def test_rollouts_that_began_with_the_old_policy_end_with_it(team: Team, server: VllmLike):
    one = team.policy(ONE)
    first = team.publishes(one, ADAPTER, server)
    batch = start_rollouts(
        workspace=one.workspace,
        policy=one,
        environment="office",
        tasks={"split": "held_out", "count": 1, "seed": 4},
        samples=1,
        by=team.member.user,
    )
    job = RolloutJob(batch)
    job.folder.path.mkdir(parents=True, exist_ok=True)
    job.prepare()
    type(batch).objects.filter(pk=batch.pk).update(state=JobState.RUNNING)
    second = team.publishes(team.policy(TWO), ADAPTER, server)
    over(first)
    assert json.loads(job.folder.config.read_text())["policy"]["model"] == first.served_name
    assert (retire_all(), server.adapters) == ([], loaded(team.runs, first, second))
    type(batch).objects.filter(pk=batch.pk).update(state=JobState.DONE)
    assert retire_all() == [first.served_name]


@pytest.mark.django_db
def test_sessions_keep_the_policy_that_they_began_with(team: Team, server: VllmLike):
    one = team.policy(ONE)
    first = team.publishes(one, ADAPTER, server)
    session = open_session(workspace=one.workspace, policy=one, by=team.member.user).session
    second = team.publishes(team.policy(TWO), ADAPTER, server)
    over(first)
    assert session.served_name == first.served_name
    assert (retire_all(), server.adapters) == ([], loaded(team.runs, first, second))
    finish_session(session=session)
    assert retire_all() == [first.served_name]


@pytest.mark.django_db
def test_a_server_that_is_away_is_asked_again_for_a_week(team: Team, server: VllmLike):
    first = team.publishes(team.policy(ONE), ADAPTER, server)
    team.publishes(team.policy(TWO), ADAPTER, server)
    over(first)
    server.http.shutdown()
    server.http.server_close()
    assert retire_all() == []
    Publication.objects.filter(pk=first.pk).update(ended_at=now() - timedelta(days=8))
    assert retire_all() == [first.served_name]


@pytest.mark.django_db
def test_a_server_that_is_down_does_not_keep_it_on_the_others(team: Team, trained: Path):
    with VllmLike(trained / "base") as first, VllmLike(trained / "base") as second:
        old = team.publishes(team.policy(ONE), ADAPTER, first, second)
        new = team.publishes(team.policy(TWO), ADAPTER, first, second)
        over(old)
        first.http.shutdown()
        first.http.server_close()
        assert (retire_all(), second.adapters) == ([], loaded(team.runs, new))


@pytest.mark.django_db
def test_a_worker_that_comes_late_leaves_nothing_of_what_was_given_up(team: Team, server: VllmLike):
    late = claimed(team.asks(team.policy(ONE), ADAPTER, server))
    Publication.objects.filter(pk=late.pk).update(losses=2, leased_until="2020-01-01T00:00Z")
    lifecycle.recover(PUBLICATIONS)
    with pytest.raises(Superseded):
        publish(late)
    assert (server.adapters, list((team.runs / "served" / "adapters").iterdir())) == ({}, [])


@pytest.mark.django_db
def test_a_folder_that_belongs_to_nothing_is_removed(team: Team):
    (team.runs / "served" / "adapters" / "office-000000000000.part").mkdir(parents=True)
    assert retire_all() == []
    assert list((team.runs / "served" / "adapters").iterdir()) == []


WORKER = (
    "import django; django.setup(); import sys; from workers.tasks import publish_policy; publish_policy(sys.argv[1])"
)


def loading(path: str, body: dict[str, Any]) -> bool:
    return path.endswith("/load_lora_adapter")


def answering(*, served_name: str, echo: bool) -> Callable[[str, dict[str, Any]], bool]:
    return lambda path, body: body.get("model") == served_name and bool(body.get("echo")) == echo


STAGES: dict[str, Callable[[Publication, Publication], Callable[[str, dict[str, Any]], bool]]] = {
    "copied": lambda old, new: lambda path, body: body.get("model") == "base",
    "asking the old policy": lambda old, new: answering(served_name=old.served_name, echo=False),
    "loaded": lambda old, new: loading,
    "asking the new policy": lambda old, new: answering(served_name=new.served_name, echo=False),
    "proving": lambda old, new: answering(served_name=new.served_name, echo=True),
}
"""The request at which the worker is killed. The server has executed it, but nobody receives the response."""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("stage", STAGES)
def test_a_publication_whose_worker_is_killed_is_done_by_the_next_or_leaves_nothing(
    stage: str, team: Team, server: VllmLike, stack_paths: StackPaths
):
    old = team.publishes(team.policy(ONE), ADAPTER, server)
    new = team.asks(team.policy(TWO), ADAPTER, server)
    kill_at(stage, old, new, server, stack_paths)
    new.refresh_from_db()
    assert new.state == "working"
    assert server.adapters.items() >= loaded(team.runs, old).items()  # which is still served
    assert Publication.objects.live().get() == old

    Publication.objects.filter(pk=new.pk).update(leased_until="2020-01-01T00:00Z")
    lifecycle.recover(PUBLICATIONS)
    if stage in ("copied", "proving"):
        assert done(new).state == "live"
        over(old)
        retire_all()
        assert server.adapters == loaded(team.runs, new)
    else:
        others = {"state": "working", "losses": 2, "leased_until": "2020-01-01T00:00Z"}  # which died as well
        Publication.objects.filter(pk=new.pk).update(**others)
        lifecycle.recover(PUBLICATIONS)
        retire_all()
        assert server.adapters == loaded(team.runs, old)
        assert [path.name for path in (team.runs / "served" / "adapters").iterdir()] == [old.served_name]
        again = team.publishes(new.policy, ADAPTER, server)
        assert again.state == "live"


def kill_at(stage: str, old: Publication, new: Publication, server: VllmLike, stack_paths: StackPaths) -> None:
    """Publish `new` in a separate process, and kill it at that stage."""
    database = {"DATABASE_URL": stack_paths.database_url_for(connection.settings_dict["NAME"])}
    folders = {"RUNS_DIR": str(settings.RUNS_DIR), "DJANGO_SETTINGS_MODULE": "apps.settings"}
    command = [sys.executable, "-c", WORKER, str(new.pk)]
    worker = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **database, **folders})
    is_there = STAGES[stage](old, new)

    def kill(path: str, body: dict[str, Any]) -> None:
        if is_there(path, body):
            worker.kill()
            worker.wait()

    server.before_answering = kill
    try:
        assert worker.wait(120) == -signal.SIGKILL
    finally:
        worker.kill()
        server.before_answering = lambda path, body: None
