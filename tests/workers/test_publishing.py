"""Publishing: nothing answers under a name that the canary has not seen answer as the policy."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from django.utils.timezone import now

from apps.accounts.models import AuditEntry
from apps.jobs import lifecycle
from apps.jobs.models import Failure, Superseded
from apps.policies import delivering
from apps.policies.jobs import PUBLICATIONS
from apps.policies.models import Endpoint, Policy, Publication
from apps.policies.publishing import NothingBefore, publish_policy, roll_back_publication
from tests import factories
from tests.trainer.runs import ROOT
from tests.workers.trained import train_two
from tests.workers.vllm_like import VllmLike
from trainer.serving import keeper
from workers.bridge import exporting, publishing
from workers.bridge.publishing import pointer_of, publish
from workers.bridge.restoring import restore_adapters
from workers.bridge.rollouts import acting_policy
from workers.tasks.publishing import publish_policy as publish_task

pytestmark = pytest.mark.django_db
ADAPTER, RESTART, FOLDER = Publication.Way.ADAPTER, Publication.Way.RESTART, Publication.Way.FOLDER


ONE, TWO = str(UUID(int=1)), str(UUID(int=2))
"""The ids of two runs."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_two(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def runs(trained: Path, settings) -> Path:
    """RUNS_DIR, with both runs in it."""
    for name, run in (("one", ONE), ("two", TWO)):
        shutil.copytree(trained / name, settings.RUNS_DIR / run)
    settings.SERVED_RUNS_DIR = str(settings.RUNS_DIR)
    settings.PUBLISHED_DIR = settings.RUNS_DIR.parent / "published"
    return settings.RUNS_DIR


@pytest.fixture
def member():
    return factories.member()


@pytest.fixture
def server(trained: Path) -> Iterator[VllmLike]:
    with VllmLike(trained / "base") as running:
        yield running


def policy(runs: Path, run: str, member) -> Policy:
    report = json.loads((runs / run / "report.json").read_text())
    return factories.trained_policy(of=member.workspace, run_id=run, report=report)


def endpoint(server: VllmLike, member) -> Endpoint:
    return Endpoint.objects.get_or_create(workspace=member.workspace, name="vllm", base_url=server.url)[0]


def published(member, what: Policy, way: str, server: VllmLike | None = None) -> Publication:
    place = endpoint(server, member) if server else None
    return done(publish_policy(policy=what, way=way, name="office", endpoint=place, by=member.user))


def done(publication: Publication) -> Publication:
    taken = lifecycle.claim(PUBLICATIONS, publication.pk, worker="here:1")
    assert taken is not None
    publish(taken)
    publication.refresh_from_db()
    return publication


def test_a_proven_adapter_takes_the_name_and_acts_there(runs: Path, server: VllmLike, member):
    one = policy(runs, ONE, member)
    publication = published(member, one, ADAPTER, server)
    assert (publication.state, publication.error) == ("live", "")
    assert publication.canary["finding"] == "passed"
    assert publication.canary["to_policy"] < 0.01 < publication.canary["to_base"]
    assert server.adapters == {"office": str(runs / ONE / "adapter")}  # and no trial left behind
    assert AuditEntry.objects.get(action="published").subject == str(publication)
    acting = acting_policy(one, {}, runs / "x", workspace_id=member.workspace.pk)
    assert (acting["engine"], acting["url"], acting["model"]) == ("server", server.url, "office")


def test_a_wrong_adapter_is_refused_and_what_was_live_still_answers(runs: Path, server: VllmLike, member):
    published(member, policy(runs, ONE, member), ADAPTER, server)
    two = policy(runs, TWO, member)
    shutil.rmtree(runs / TWO / "adapter")
    shutil.copytree(runs / ONE / "adapter", runs / TWO / "adapter")  # somebody mixed up two folders
    refused = published(member, two, ADAPTER, server)
    assert (refused.state, refused.canary["finding"]) == ("refused", "other_policy")
    assert server.adapters == {"office": str(runs / ONE / "adapter")}
    assert Publication.objects.live().get().policy.made_by.pk == UUID(ONE)


def test_a_server_on_which_the_base_answers_in_silence_is_refused(runs: Path, server: VllmLike, member):
    server.ignores_adapters = True
    refused = published(member, policy(runs, ONE, member), ADAPTER, server)
    assert (refused.state, refused.canary["finding"]) == ("refused", "base_answers")
    assert refused.error.startswith("The base model answers under this name")
    assert server.adapters == {}


def test_a_server_with_another_base_is_refused(runs: Path, trained: Path, member):
    with VllmLike(trained / "stranger") as server:
        refused = published(member, policy(runs, ONE, member), ADAPTER, server)
    assert refused.canary["finding"] == "other_base"


def test_a_missing_adapter_or_server_fails_in_words(runs: Path, server: VllmLike, member):
    one, two = policy(runs, ONE, member), policy(runs, TWO, member)
    publication = publish_policy(policy=one, way=ADAPTER, name="office", endpoint=endpoint(server, member), by=None)
    (runs / ONE / "adapter" / "adapter_config.json").unlink()
    assert "no adapter in" in done(publication).error
    server.forgets_on_swap = "office"
    failed = published(member, two, ADAPTER, server)
    assert (failed.state, server.adapters) == ("failed", {})
    assert "does not exist" in failed.error
    away = Endpoint.objects.create(workspace=member.workspace, name="away", base_url="http://127.0.0.1:9/v1")
    failed = done(publish_policy(policy=two, way=ADAPTER, name="office", endpoint=away, by=None))
    assert "does not answer" in failed.error


def test_rolling_back_proves_the_one_before_again(runs: Path, server: VllmLike, member):
    first = published(member, policy(runs, ONE, member), ADAPTER, server)
    second = published(member, policy(runs, TWO, member), ADAPTER, server)
    first.refresh_from_db()
    assert (first.state, second.state) == ("replaced", "live")
    back = done(roll_back_publication(publication=second, by=member.user))
    assert (back.state, back.policy, back.is_rollback) == ("live", first.policy, True)
    assert server.adapters == {"office": str(runs / ONE / "adapter")}
    with pytest.raises(NothingBefore):
        roll_back_publication(publication=back, by=member.user)
    with pytest.raises(NothingBefore, match="not live any more"):
        roll_back_publication(publication=second, by=member.user)


def test_a_folder_holds_every_byte_and_says_where_it_comes_from(runs: Path, member, settings):
    one = published(member, policy(runs, ONE, member), FOLDER)
    current = settings.PUBLISHED_DIR / member.workspace.slug / "office" / "current"
    assert str(current.resolve()) == one.location
    manifest = json.loads((current / "retrace.json").read_text())
    assert manifest["run"] == ONE
    assert {"model/model.safetensors", "adapter/adapter_model.safetensors", "canary.json"} <= set(manifest["sha256"])
    for name, sha256 in manifest["sha256"].items():
        assert hashlib.sha256((current / name).read_bytes()).hexdigest() == sha256
    two = published(member, policy(runs, TWO, member), FOLDER)
    assert str(current.resolve()) == two.location
    done(roll_back_publication(publication=two, by=member.user))
    assert json.loads((current / "retrace.json").read_text())["run"] == ONE


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


def test_a_server_is_restarted_with_the_model_and_back_where_the_canary_refuses(
    runs: Path, trained: Path, member, tmp_path: Path, free_port: int, settings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(publishing, "LOOK_EVERY_SECONDS", 0.2)
    settings.SERVER_START_SECONDS = 60
    script = tmp_path / "server.py"
    script.write_text(SERVER.format(root=str(ROOT)))
    place = Endpoint.objects.create(
        workspace=member.workspace, name="vllm", base_url=f"http://127.0.0.1:{free_port}/v1"
    )
    one = publish_policy(policy=policy(runs, ONE, member), way=RESTART, name="office", endpoint=place, by=None)
    pointer = pointer_of(one)
    command = [sys.executable, keeper.__file__, "--pointer", str(pointer), "--default", str(trained / "base")]
    process = subprocess.Popen([*command, "--", sys.executable, str(script), "--port", str(free_port)], cwd=ROOT)
    try:
        assert (done(one).state, one.error) == ("live", "")
        assert one.canary["to_policy"] < 0.01
        two = policy(runs, TWO, member)
        shutil.rmtree(runs / TWO / "model")
        shutil.copytree(trained / "base", runs / TWO / "model")  # the base under the policy's name
        refused = done(publish_policy(policy=two, way=RESTART, name="office", endpoint=place, by=None))
        assert (refused.state, refused.canary["finding"]) == ("refused", "base_answers")
        assert keeper.wanted_model(pointer, default="") == (str(runs / ONE / "model"), "office")
    finally:
        process.terminate()
        assert process.wait(20) == 0


def test_what_a_killed_worker_pointed_the_server_at_is_not_what_it_goes_back_to(
    runs: Path, server: VllmLike, member, monkeypatch: pytest.MonkeyPatch
):
    place = endpoint(server, member)
    live = publish_policy(policy=policy(runs, ONE, member), way=RESTART, name="office", endpoint=place, by=None)
    Publication.objects.filter(pk=live.pk).update(state="live", live_at=now())
    two = publish_policy(policy=policy(runs, TWO, member), way=RESTART, name="base", endpoint=place, by=None)
    first = lifecycle.claim(PUBLICATIONS, two.pk, worker="here:1")
    assert first is not None
    monkeypatch.setattr(publishing, "_wait_for", _killed)
    with pytest.raises(KeyboardInterrupt):
        publish(first)
    monkeypatch.setattr(publishing, "_wait_for", lambda *_: None)
    Publication.objects.filter(pk=two.pk).update(state="waiting")
    assert done(two).state == "refused"  # the server never left its base
    assert keeper.wanted_model(pointer_of(two), default="") == (str(runs / ONE / "model"), "office")


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_the_name_of_another_workspaces_policy_on_the_same_server_is_refused(runs: Path, server: VllmLike, member):
    published(member, policy(runs, ONE, member), ADAPTER, server)
    stranger = factories.member()
    taken = published(stranger, policy(runs, TWO, stranger), ADAPTER, server)
    assert (taken.state, taken.error) == (
        "failed",
        f"{server.url} serves something else as 'office': {runs / ONE / 'adapter'}. Choose another name.",
    )
    assert server.adapters == {"office": str(runs / ONE / "adapter")}


def test_a_restarted_server_has_forgotten_what_other_workspaces_had_on_it(runs: Path, server: VllmLike, member):
    theirs = published(member, policy(runs, ONE, member), ADAPTER, server)
    stranger = factories.member()
    place = endpoint(server, stranger)
    asked = publish_policy(policy=policy(runs, TWO, stranger), way=RESTART, name="two", endpoint=place, by=None)
    taken = lifecycle.claim(PUBLICATIONS, asked.pk, worker="here:1")
    assert taken is not None
    delivering.go_live(taken, canary={}, location="")
    theirs.refresh_from_db()
    assert theirs.state == "replaced"


def test_a_lease_is_renewed_within_a_file(runs: Path, member, settings, monkeypatch: pytest.MonkeyPatch):
    settings.WORKER_LEASE_SECONDS = 0
    monkeypatch.setattr(exporting, "PIECE_BYTES", 4096)
    renewed: list[Publication] = []
    renew = lifecycle.renew
    monkeypatch.setattr(lifecycle, "renew", lambda publication: (renewed.append(publication), renew(publication)))
    published(member, policy(runs, ONE, member), FOLDER)
    assert len(renewed) > (runs / ONE / "model" / "model.safetensors").stat().st_size // 4096


def test_a_publication_is_done_by_one_worker_and_taken_from_one_that_vanished(runs: Path, member):
    publication = publish_policy(policy=policy(runs, ONE, member), way=FOLDER, name="office", by=member.user)
    first = lifecycle.claim(PUBLICATIONS, publication.pk, worker="here:1")
    assert first is not None
    assert lifecycle.claim(PUBLICATIONS, publication.pk, worker="there:2") is None
    Publication.objects.filter(pk=publication.pk).update(leased_until="2020-01-01T00:00Z")
    assert lifecycle.recover(PUBLICATIONS) == [publication]
    publish_task(str(publication.pk))
    publish_task(str(publication.pk))  # told twice
    publication.refresh_from_db()
    assert (publication.state, publication.attempt) == ("live", 2)
    with pytest.raises(Superseded):
        lifecycle.fail(first, Failure("late", "Too late."))


def test_a_server_that_restarted_by_itself_gets_its_adapters_back(runs: Path, server: VllmLike, member):
    publication = published(member, policy(runs, ONE, member), ADAPTER, server)
    assert restore_adapters() == []  # nothing is missing
    server.adapters.clear()
    assert restore_adapters() == [publication]
    assert server.adapters == {"office": str(runs / ONE / "adapter")}


def test_a_name_that_means_another_adapter_on_the_server_gets_its_own_back(runs: Path, server: VllmLike, member):
    published(member, policy(runs, TWO, member), ADAPTER, server)
    live = published(member, policy(runs, ONE, member), ADAPTER, server)
    server.adapters["office"] = str(runs / TWO / "adapter")  # as a worker may that comes late
    assert restore_adapters() == [live]
    assert server.adapters == {"office": str(runs / ONE / "adapter")}


def test_an_adapter_that_is_no_longer_itself_is_not_restored_and_no_longer_live(runs: Path, server: VllmLike, member):
    publication = published(member, policy(runs, ONE, member), ADAPTER, server)
    server.adapters.clear()
    server.ignores_adapters = True
    assert restore_adapters() == []
    publication.refresh_from_db()
    assert (publication.state, publication.canary["finding"], server.adapters) == ("refused", "base_answers", {})


def test_what_is_being_replaced_or_on_a_server_that_is_away_is_left_alone(runs: Path, server: VllmLike, member):
    one = policy(runs, ONE, member)
    publication = published(member, one, ADAPTER, server)
    server.adapters.clear()
    two = policy(runs, TWO, member)
    publish_policy(policy=two, way=ADAPTER, name="office", endpoint=endpoint(server, member), by=member.user)
    assert (restore_adapters(), server.adapters) == ([], {})
    Publication.objects.active().delete()
    server.http.shutdown()
    server.http.server_close()
    assert restore_adapters() == []
    publication.refresh_from_db()
    assert publication.state == "live"
