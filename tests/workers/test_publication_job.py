"""Publishing: which worker does it, only once, and publishing as a folder."""

import errno
import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from apps.jobs import lifecycle
from apps.jobs.models import Failure, Superseded
from apps.policies.models import Publication
from apps.policies.publication import PUBLICATIONS, roll_back_publication
from tests.workers.conftest import ONE, TWO, Team, claimed, done
from workers.bridge import policy_export
from workers.bridge.publication_job import publish
from workers.tasks import publish_policy as publish_task

pytestmark = pytest.mark.django_db
FOLDER = Publication.Way.FOLDER


def test_a_folder_holds_every_byte_and_says_where_it_comes_from(team: Team, settings):
    one = team.publishes(team.policy(ONE), FOLDER)
    current = settings.PUBLISHED_DIR / team.member.workspace.slug / "office" / "current"
    assert str(current.resolve()) == one.location
    manifest = json.loads((current / "retrace.json").read_text())
    assert manifest["run"] == ONE
    assert {"model/model.safetensors", "adapter/adapter_model.safetensors", "canary.json"} <= set(manifest["sha256"])
    for name, sha256 in manifest["sha256"].items():
        assert hashlib.sha256((current / name).read_bytes()).hexdigest() == sha256
    for folder in ("model", "adapter"):
        assert f"# {one.policy.name}\n" in (current / folder / "README.md").read_text()
        assert f"{folder}/README.md" in manifest["sha256"]
    two = team.publishes(team.policy(TWO), FOLDER)
    assert str(current.resolve()) == two.location
    done(roll_back_publication(publication=two, by=team.member.user))
    assert json.loads((current / "retrace.json").read_text())["run"] == ONE


def test_a_lease_is_renewed_within_a_file(team: Team, settings, monkeypatch: pytest.MonkeyPatch):
    settings.WORKER_LEASE_SECONDS = 0
    monkeypatch.setattr(policy_export, "CHUNK_BYTES", 4096)
    renewed: list[Publication] = []
    renew = lifecycle.renew
    monkeypatch.setattr(lifecycle, "renew", lambda publication: (renewed.append(publication), renew(publication)))
    team.publishes(team.policy(ONE), FOLDER)
    assert len(renewed) > (team.runs / ONE / "model" / "model.safetensors").stat().st_size // 4096


def test_a_publication_is_done_by_one_worker_and_taken_from_one_that_vanished(team: Team):
    publication = team.asks(team.policy(ONE), FOLDER)
    first = claimed(publication)
    assert lifecycle.claim(PUBLICATIONS, publication.pk, worker="there:2") is None
    Publication.objects.filter(pk=publication.pk).update(leased_until="2020-01-01T00:00Z")
    assert lifecycle.recover(PUBLICATIONS) == [publication]
    publish_task(str(publication.pk))
    publish_task(str(publication.pk))  # delivered twice
    publication.refresh_from_db()
    assert (publication.state, publication.attempt) == ("live", 2)
    with pytest.raises(Superseded):
        lifecycle.fail(first, Failure("late", "Too late."))


def test_nothing_is_left_of_a_folder_whose_copy_was_cut_short(team: Team, settings):
    publication = team.asks(team.policy(ONE), FOLDER)
    home = Path(settings.PUBLISHED_DIR) / team.member.workspace.slug / "office"
    (home / f"{publication.pk.hex}-1.part" / "model").mkdir(parents=True)
    (home / f"{publication.pk.hex}-1.part" / "model" / "model.safetensors").write_bytes(b"half")
    Publication.objects.filter(pk=publication.pk).update(attempt=1)
    assert done(publication).state == "live"
    assert sorted(path.name for path in home.iterdir()) == sorted([publication.pk.hex, "current"])


def test_a_worker_that_was_presumed_dead_takes_nothing_from_what_is_live(
    team: Team, settings, monkeypatch: pytest.MonkeyPatch
):
    publication = team.asks(team.policy(ONE), FOLDER)
    first, own = claimed(publication), policy_export._write_export

    def suspended(*arguments: Any) -> None:
        """Other workers continue while this one is suspended."""
        own(*arguments)
        monkeypatch.setattr(policy_export, "_write_export", own)
        Publication.objects.filter(pk=publication.pk).update(leased_until="2020-01-01T00:00Z")
        assert lifecycle.recover(PUBLICATIONS)
        assert done(publication).state == "live"
        team.publishes(team.policy(TWO), FOLDER)

    monkeypatch.setattr(policy_export, "_write_export", suspended)
    with suppress(Superseded):
        publish(first)
    home = Path(settings.PUBLISHED_DIR) / team.member.workspace.slug / "office"
    assert json.loads((home / "current" / "retrace.json").read_text())["run"] == TWO
    manifest = json.loads((home / publication.pk.hex / "retrace.json").read_text())
    for name, sha256 in manifest["sha256"].items():
        assert hashlib.sha256((home / publication.pk.hex / name).read_bytes()).hexdigest() == sha256


def test_what_a_killed_machine_left_damaged_is_copied_again(team: Team, settings):
    publication = team.asks(team.policy(ONE), FOLDER)
    place = Path(settings.PUBLISHED_DIR) / team.member.workspace.slug / "office" / publication.pk.hex
    place.mkdir(parents=True)
    (place / "retrace.json").write_text(json.dumps({"sha256": {"model/model.safetensors": "0" * 64}}))
    assert done(publication).state == "live"
    assert json.loads((place / "retrace.json").read_text())["run"] == ONE


def test_a_full_disk_is_named_and_keeps_nothing_of_the_copy(team: Team, settings, monkeypatch: pytest.MonkeyPatch):
    def full(source: Path, target: Path, renew: object) -> str:
        target.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    policy = team.policy(ONE)
    with monkeypatch.context() as disk:
        disk.setattr(policy_export, "_copy", full)
        failed = team.publishes(policy, FOLDER)
    assert (failed.state, failed.failure["category"]) == ("failed", "disk_full")
    assert failed.error == (
        "The disk that policies are copied to is full, so nothing was published. Free some space, then publish it again."
    )
    home = Path(settings.PUBLISHED_DIR) / team.member.workspace.slug / "office"
    assert list(home.iterdir()) == []
    assert team.publishes(policy, FOLDER).state == "live"


def test_a_disk_that_fails_is_told_without_its_paths(team: Team, monkeypatch: pytest.MonkeyPatch):
    def read_only(source: Path, target: Path, renew: object) -> str:
        raise OSError(errno.EROFS, "Read-only file system", str(target))

    monkeypatch.setattr(policy_export, "_copy", read_only)
    assert team.publishes(team.policy(ONE), FOLDER).error == "Read-only file system"


@pytest.mark.parametrize("name", ["mine.py", "pytorch_model.bin", "weights.pkl", "kernel.so"])
def test_code_and_pickles_beside_a_runs_weights_are_not_published(name: str, team: Team, settings):
    (team.runs / ONE / "model" / name).write_bytes(b"somebody put it there")
    failed = team.publishes(team.policy(ONE), FOLDER)
    assert (failed.state, failed.error) == (
        "failed",
        f"{team.runs / ONE / 'model' / name} is neither weights nor settings nor text, so it isn't published.",
    )
    assert list((Path(settings.PUBLISHED_DIR) / team.member.workspace.slug / "office").iterdir()) == []
