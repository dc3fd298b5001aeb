"""Models of training runs are exported on request; only files that can't run code."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.db import OperationalError

from apps.accounts.models import Membership, Role
from apps.jobs import lifecycle
from apps.policies.locations import weights_of_run
from apps.policies.models import Policy
from apps.trajectories.imports.upload import store
from apps.transfer import import_job
from apps.transfer.archive_reader import ArchiveReader
from apps.transfer.import_job import import_workspace, request_import
from apps.transfer.models import Import
from tests import factories
from tests.transfer.archives import exported, imported, unpacked

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner(settings: Any, tmp_path: Path) -> Membership:
    settings.RUNS_DIR = tmp_path / "runs"
    member = factories.member(Role.OWNER)
    policy = factories.trained_policy(of=member.workspace)
    weights = weights_of_run(policy)
    assert weights is not None
    weights.model.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "pytorch_model.bin", "training_args.pkl"):
        (weights.model / name).write_bytes(name.encode())
    (weights.model / "secret.json").symlink_to("/etc/hostname")
    weights.canary.write_bytes(b"canary")
    return member


def test_they_are_left_out_unless_asked_for(owner: Membership):
    members = unpacked(exported(owner))
    assert not any(name.startswith("weights/") for name in members)
    assert b"The models of training runs weren't asked for." in members["manifest.json"]


def test_they_are_where_the_imported_training_run_has_its_model(owner: Membership):
    archive = exported(owner, include_weights=True)
    names = [name.rpartition("/")[2] for name in unpacked(archive) if name.startswith("weights/")]
    assert names == ["config.json", "model.safetensors", "canary.json"]
    elsewhere = factories.member(Role.OWNER)
    job = imported(archive, elsewhere)
    assert job.state == "done", job.error
    policy = Policy.objects.get(workspace=elsewhere.workspace, made_by__isnull=False)
    weights = weights_of_run(policy)
    assert weights is not None
    assert {path.name: path.read_bytes() for path in weights.model.iterdir()} == {
        "config.json": b"config.json",
        "model.safetensors": b"model.safetensors",
    }
    assert weights.canary.read_bytes() == b"canary", "without it, the policy couldn't be published"


def test_what_a_killed_attempt_left_is_written_anew(owner: Membership, monkeypatch: pytest.MonkeyPatch):
    archive = exported(owner, include_weights=True)
    elsewhere = factories.member(Role.OWNER)
    job = request_import(stored=store(ContentFile(archive), filename="a.zip"), by=elsewhere)
    blocks = ArchiveReader.blocks

    def killed(self: ArchiveReader, name: str) -> Iterator[bytes]:
        if name.endswith("model.safetensors"):
            yield b"half"
            raise KeyboardInterrupt
        yield from blocks(self, name)

    monkeypatch.setattr(ArchiveReader, "verify", lambda *_: None)
    monkeypatch.setattr(ArchiveReader, "blocks", killed)
    with pytest.raises(KeyboardInterrupt):
        import_workspace(str(job.pk))
    monkeypatch.undo()
    host = lifecycle.this_worker().rpartition(":")[0]
    Import.objects.filter(pk=job.pk).update(worker=f"{host}:4194300")  # above the largest possible process id
    assert import_workspace(str(job.pk))
    policy = Policy.objects.get(workspace=elsewhere.workspace, made_by__isnull=False)
    weights = weights_of_run(policy)
    assert weights is not None
    assert (weights.model / "model.safetensors").read_bytes() == b"model.safetensors"
    assert sorted(path.name for path in weights.model.parent.iterdir()) == ["canary.json", "model"]


def test_an_import_that_is_refused_leaves_no_folder(owner: Membership, settings: Any, monkeypatch: pytest.MonkeyPatch):
    archive = exported(owner, include_weights=True)
    before = list(Path(settings.RUNS_DIR).iterdir())

    def broken(*_: object, **__: object) -> None:
        raise OSError("The storage is away.")

    monkeypatch.setattr("apps.transfer.import_job.redaction.next_version", broken)
    job = imported(archive, factories.member(Role.OWNER))
    assert job.state == "failed"
    assert list(Path(settings.RUNS_DIR).iterdir()) == before


class _Suspended(BaseException):
    """Aborts a worker's transaction."""


def test_a_worker_that_was_presumed_dead_takes_no_model_from_the_import_that_went_on(
    owner: Membership, settings: Any, monkeypatch: pytest.MonkeyPatch
):
    archive = exported(owner, include_weights=True)
    elsewhere = factories.member(Role.OWNER)
    job = request_import(stored=store(ContentFile(archive), filename="a.zip"), by=elsewhere)
    blocks = ArchiveReader.blocks

    def suspended(self: ArchiveReader, name: str) -> Iterator[bytes]:
        """The database closes the connection of a suspended worker, and another worker takes its job."""
        if not name.endswith("model.safetensors"):
            yield from blocks(self, name)
            return
        monkeypatch.setattr(ArchiveReader, "blocks", blocks)
        raise _Suspended

    def carry_out(*arguments: Any) -> None:
        try:
            own(*arguments)
        except _Suspended:
            Import.objects.filter(pk=job.pk).update(leased_until="2020-01-01T00:00Z")
            assert import_workspace(str(job.pk))
            raise OperationalError("The connection is lost.") from None

    own = import_job._carry_out
    monkeypatch.setattr(ArchiveReader, "verify", lambda *_: None)
    monkeypatch.setattr(ArchiveReader, "blocks", suspended)
    monkeypatch.setattr(import_job, "_carry_out", carry_out)
    with suppress(OperationalError):
        import_workspace(str(job.pk))
    policy = Policy.objects.get(workspace=elsewhere.workspace, made_by__isnull=False)
    weights = weights_of_run(policy)
    assert weights is not None
    assert (weights.model / "model.safetensors").read_bytes() == b"model.safetensors"
