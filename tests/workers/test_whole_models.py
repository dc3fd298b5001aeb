"""Whole models: a server restarts with one, which is verified; otherwise the previous one is restored."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils.timezone import now

from apps.jobs import lifecycle
from apps.policies import publication_progress
from apps.policies.models import Endpoint, Publication
from apps.policies.publication import PUBLICATIONS, publish_policy
from tests import factories
from tests.trainer.runs import ROOT
from tests.workers.conftest import ONE, TWO, Team, claimed, done
from tests.workers.vllm_like import VllmLike
from trainer.serving import keeper
from workers.bridge import whole_models
from workers.bridge.publication_job import publish
from workers.bridge.whole_models import pointer_of, reset_abandoned_pointers

pytestmark = pytest.mark.django_db
ADAPTER, RESTART = Publication.Way.ADAPTER, Publication.Way.RESTART
SERVER = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.workers.vllm_like import VllmLike
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
server = VllmLike(Path(options["--model"]), name=options["--served-model-name"])
server.http.server_close()
from http.server import ThreadingHTTPServer
server.http = ThreadingHTTPServer(("127.0.0.1", int(options["--port"])), server.http.RequestHandlerClass)
server.http.serve_forever()
"""


@pytest.fixture
def kept(team: Team, trained: Path, tmp_path: Path, free_port: int, settings, monkeypatch) -> Iterator[Endpoint]:
    """A separate server with the base, under a real keeper."""
    monkeypatch.setattr(whole_models, "POLL_SECONDS", 0.2)
    settings.SERVER_START_SECONDS = 60
    script = tmp_path / "server.py"
    script.write_text(SERVER.format(root=str(ROOT)))
    address = f"http://127.0.0.1:{free_port}/v1"
    command = [
        sys.executable,
        keeper.__file__,
        "--pointer",
        str(pointer_of(address)),
        "--default",
        str(trained / "base"),
    ]
    process = subprocess.Popen([*command, "--", sys.executable, str(script), "--port", str(free_port)], cwd=ROOT)
    yield Endpoint.objects.create(workspace=team.member.workspace, name="vllm", base_url=address)
    process.terminate()
    assert process.wait(20) == 0


def test_a_server_is_restarted_with_the_model_and_back_where_the_canary_refuses(
    team: Team, trained: Path, kept: Endpoint
):
    one = done(publish_policy(policy=team.policy(ONE), way=RESTART, name="office", endpoint=kept, by=None))
    assert (one.state, one.error) == ("live", "")
    assert one.canary["to_policy"] < 0.01
    two = team.policy(TWO)
    shutil.rmtree(team.runs / TWO / "model")
    shutil.copytree(trained / "base", team.runs / TWO / "model")  # the base under the policy's name
    refused = done(publish_policy(policy=two, way=RESTART, name="office", endpoint=kept, by=None))
    assert (refused.state, refused.canary["finding"]) == ("refused", "base_answers")
    assert keeper.requested_model(pointer_of(kept.base_url), default="") == (
        str(team.runs / ONE / "model"),
        one.served_name,
    )


def live(team: Team, server: VllmLike) -> Publication:
    publication = team.asks(team.policy(ONE), RESTART, server)
    Publication.objects.filter(pk=publication.pk).update(state="live", live_at=now())
    return publication


def test_what_a_killed_worker_pointed_the_server_at_is_not_what_it_goes_back_to(
    team: Team, server: VllmLike, monkeypatch: pytest.MonkeyPatch
):
    old = live(team, server)
    new = team.asks(team.policy(TWO), RESTART, server, name="two")
    first = claimed(new)
    monkeypatch.setattr(whole_models, "_wait_for", _killed)
    with pytest.raises(KeyboardInterrupt):
        publish(first)
    monkeypatch.setattr(whole_models, "_wait_for", lambda *_: None)
    Publication.objects.filter(pk=new.pk).update(state="waiting")
    assert done(new).state == "failed"  # the server is unaffected
    assert keeper.requested_model(pointer_of(server.url), default="") == (
        str(team.runs / ONE / "model"),
        old.served_name,
    )


def test_a_server_that_killed_workers_left_pointed_elsewhere_is_pointed_back(
    team: Team, server: VllmLike, monkeypatch: pytest.MonkeyPatch
):
    old = live(team, server)
    new = team.asks(team.policy(TWO), RESTART, server, name="two")
    monkeypatch.setattr(whole_models, "_wait_for", _killed)
    with pytest.raises(KeyboardInterrupt):
        publish(claimed(new))
    assert keeper.requested_model(pointer_of(server.url), default="") == (
        str(team.runs / TWO / "model"),
        new.served_name,
    )
    assert reset_abandoned_pointers() == []  # another worker may still take it over
    Publication.objects.filter(pk=new.pk).update(losses=2, leased_until="2020-01-01T00:00Z")
    lifecycle.recover(PUBLICATIONS)
    assert reset_abandoned_pointers() == [server.url]
    assert keeper.requested_model(pointer_of(server.url), default="") == (
        str(team.runs / ONE / "model"),
        old.served_name,
    )
    assert reset_abandoned_pointers() == []  # a second call has nothing to do


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_restarted_server_has_forgotten_what_other_workspaces_had_on_it(team: Team, server: VllmLike):
    theirs = team.publishes(team.policy(ONE), ADAPTER, server)
    others = Team(team.runs)
    taken = claimed(others.asks(others.policy(TWO), RESTART, server, name="two"))
    publication_progress.go_live(taken, canary={}, location="")
    theirs.refresh_from_db()
    assert theirs.state == "replaced"


def test_a_server_without_a_possible_address_keeps_no_other_from_being_pointed_back(
    team: Team, server: VllmLike, monkeypatch: pytest.MonkeyPatch
):
    """As an imported one may have been. The work is for all workspaces."""
    others = factories.member()
    odd = Endpoint.objects.create(workspace=others.workspace, name="odd", base_url="http://vllm.example:99999/v1")
    policy = factories.policy(of=others.workspace)
    Publication.objects.create(
        workspace=others.workspace, policy=policy, way=RESTART, endpoint=odd, name="odd", state="failed"
    )
    test_a_server_that_killed_workers_left_pointed_elsewhere_is_pointed_back(team, server, monkeypatch)


def test_replicas_restart_one_after_the_other_and_all_go_back(
    team: Team, trained: Path, monkeypatch: pytest.MonkeyPatch
):
    with VllmLike(trained / "base") as first, VllmLike(trained / "base") as second:
        waited: list[str] = []
        monkeypatch.setattr(whole_models, "_wait_for", lambda _, server, *__: waited.append(server.url))
        failed = team.publishes(team.policy(ONE), RESTART, first, second)
        assert (failed.state, waited) == (
            "failed",
            [first.url],
        )  # neither server restarts here, so the first one doesn't have this model
        assert not pointer_of(first.url).exists()
        assert not pointer_of(second.url).exists()
