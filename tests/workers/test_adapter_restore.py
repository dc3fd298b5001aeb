"""Servers that have lost live adapters."""

import shutil
from contextlib import suppress
from pathlib import Path
from threading import Thread
from unittest.mock import Mock

import pytest
from django.db import connection

from apps.accounts.models import AuditEntry
from apps.gateway.sessions import finish_session, open_session
from apps.policies.models import Publication
from tests.workers.conftest import ONE, TWO, Team, loaded
from tests.workers.vllm_like import VllmLike
from trainer.serving.client import ServerProblem, VllmServer
from workers import tasks
from workers.bridge import adapter_restore
from workers.bridge.adapter_restore import restore_adapters
from workers.tasks import restore_servers

pytestmark = pytest.mark.django_db
ADAPTER = Publication.Way.ADAPTER


def test_a_server_that_restarted_by_itself_gets_its_adapters_back(team: Team, server: VllmLike):
    publication = team.publishes(team.policy(ONE), ADAPTER, server)
    assert restore_adapters() == []  # nothing is missing
    server.adapters.clear()
    assert restore_adapters() == [publication]
    assert server.adapters == loaded(team.runs, publication)


def test_only_the_replica_that_restarted_is_loaded_again(team: Team, trained: Path):
    with VllmLike(trained / "base") as first, VllmLike(trained / "base") as second:
        publication = team.publishes(team.policy(ONE), ADAPTER, first, second)
        second.adapters.clear()
        first.asked.clear()
        assert restore_adapters() == [publication]
        assert second.adapters == loaded(team.runs, publication)
        assert first.asked == []  # except for what it serves

        second.adapters.clear()
        second.ignores_adapters = True
        assert restore_adapters() == []
        publication.refresh_from_db()
        assert (publication.state, second.adapters) == ("live", {})  # the other one answers


def test_a_name_at_another_path_gets_its_own_back(team: Team, server: VllmLike):
    live = team.publishes(team.policy(ONE), ADAPTER, server)
    server.adapters[live.served_name] = str(team.runs / TWO / "adapter")
    assert restore_adapters() == [live]
    assert server.adapters == loaded(team.runs, live)


def test_an_adapter_whose_copy_is_lost_is_copied_again(team: Team, server: VllmLike):
    """As after an upgrade from a version that served the runs' own folders."""
    live = team.publishes(team.policy(ONE), ADAPTER, server)
    server.adapters.clear()
    shutil.rmtree(team.runs / "served")
    assert restore_adapters() == [live]
    assert server.adapters == loaded(team.runs, live)


def test_an_adapter_that_is_no_longer_itself_is_not_restored_and_no_longer_live(team: Team, server: VllmLike):
    publication = team.publishes(team.policy(ONE), ADAPTER, server)
    server.adapters.clear()
    server.ignores_adapters = True
    assert restore_adapters() == []
    publication.refresh_from_db()
    assert (publication.state, publication.canary["finding"], server.adapters) == ("refused", "base_answers", {})
    assert AuditEntry.objects.get(action="took down").subject == str(publication)


@pytest.mark.parametrize("is_killed", [True, False])
def test_an_adapter_that_was_loaded_again_but_not_verified_is_verified_the_next_time(
    team: Team, server: VllmLike, monkeypatch: pytest.MonkeyPatch, is_killed: bool
):
    publication = team.publishes(team.policy(ONE), ADAPTER, server)
    server.adapters.clear()
    with monkeypatch.context() as broken:
        error = SystemExit() if is_killed else ServerProblem("out of memory")
        broken.setattr(VllmServer, "logprobs", Mock(side_effect=error))
        with suppress(SystemExit):
            assert restore_adapters() == []
    assert server.adapters == (loaded(team.runs, publication) if is_killed else {})
    assert restore_adapters() == [publication]
    assert restore_adapters() == []


def test_a_replaced_adapter_that_sessions_keep_is_restored_too(team: Team, server: VllmLike):
    one = team.policy(ONE)
    first = team.publishes(one, ADAPTER, server)
    session = open_session(workspace=one.workspace, policy=one, by=team.member.user).session
    second = team.publishes(team.policy(TWO), ADAPTER, server)
    server.adapters.clear()
    assert restore_adapters() == [first, second]
    assert server.adapters == loaded(team.runs, first, second)
    server.adapters.clear()
    server.ignores_adapters = True
    assert restore_adapters() == []
    first.refresh_from_db()
    assert first.state == "replaced"
    server.ignores_adapters = False
    finish_session(session=session)
    assert first not in restore_adapters()


def test_while_another_is_published_the_live_one_is_restored(team: Team, server: VllmLike):
    live = team.publishes(team.policy(ONE), ADAPTER, server)
    server.adapters.clear()
    team.asks(team.policy(TWO), ADAPTER, server)
    assert restore_adapters() == [live]


def test_a_workspace_whose_servers_are_slow_leaves_time_to_others(
    team: Team, server: VllmLike, monkeypatch: pytest.MonkeyPatch
):
    first, second = (team.publishes(team.policy(run), ADAPTER, server, name=run) for run in (ONE, TWO))
    monkeypatch.setattr(adapter_restore, "TURN_SECONDS", 0)
    requests = []
    monkeypatch.setattr(adapter_restore, "restore", requests.append)
    for _ in range(3):
        restore_adapters()
    assert requests == [first, second, first]


@pytest.mark.django_db(transaction=True)
def test_one_worker_at_a_time_asks_servers(monkeypatch: pytest.MonkeyPatch):
    passes = []

    def restore_again() -> None:
        passes.append(1)
        thread = Thread(target=lambda: (restore_servers(), connection.close()))
        thread.start()
        thread.join()

    monkeypatch.setattr(tasks, "restore_adapters", restore_again)
    restore_servers()
    assert passes == [1]


def test_a_server_that_is_away_is_asked_the_next_time(team: Team, server: VllmLike):
    publication = team.publishes(team.policy(ONE), ADAPTER, server)
    server.http.shutdown()
    server.http.server_close()
    assert restore_adapters() == []
    publication.refresh_from_db()
    assert publication.state == "live"
