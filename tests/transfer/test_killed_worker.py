"""A worker killed in the middle of an import leaves nothing behind, and the next one imports everything."""

import os
import signal
import subprocess
import sys
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage, default_storage
from django.db import connection

from apps.accounts.models import Membership, Role, User
from apps.trajectories.imports.upload import store
from apps.trajectories.models import Trajectory
from apps.transfer.export_job import expire
from apps.transfer.import_job import import_workspace, request_import
from apps.transfer.tables import TABLES
from tests import factories
from tests.transfer.archives import exported

pytestmark = pytest.mark.django_db(transaction=True)

WORKER = """
import sys, time, django
django.setup()
from django.conf import settings
from apps.transfer import import_job
from apps.transfer.frozen_files import FrozenFiles

def wait(self):
    print("all rows are written, and nothing is committed", flush=True)
    time.sleep(600)

settings.STORAGES["default"].setdefault("OPTIONS", {})["location"] = sys.argv[2]
FrozenFiles.refuse_others = wait
import_job.import_workspace(sys.argv[1])
"""


@pytest.fixture
def owner() -> Membership:
    member = factories.member(Role.OWNER)
    step = {"context": [], "message": factories.assistant_message("Hello.")}
    for number in range(3):
        factories.imported_run([step], of=member.workspace, task_key=f"task-{number}")
    return member


def _database() -> str:
    """The URL of this test's database."""
    parts = urlsplit(settings.DATABASE_URL)
    return urlunsplit(parts._replace(path=f"/{connection.settings_dict['NAME']}"))


def test_a_worker_that_is_killed_leaves_nothing_and_the_next_one_imports_all(owner: Membership):
    elsewhere = factories.member(Role.OWNER)
    people = User.objects.count()
    job = request_import(stored=store(ContentFile(exported(owner)), filename="a.zip"), by=elsewhere)
    command = [sys.executable, "-c", WORKER, str(job.pk), str(default_storage.location)]
    environment = {**os.environ, "DATABASE_URL": _database(), "DJANGO_SETTINGS_MODULE": "apps.settings"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert "nothing is committed" in worker.stdout.readline()
        worker.send_signal(signal.SIGKILL)
    assert not any(table.rows(elsewhere.workspace).exists() for table in TABLES)
    assert User.objects.count() == people
    assert import_workspace(str(job.pk))
    job.refresh_from_db()
    assert (job.state, job.attempt, job.losses) == ("done", 2, 0)
    assert Trajectory.objects.filter(workspace=elsewhere.workspace).count() == 3


def test_an_archive_that_the_storage_does_not_delete_now_is_deleted_later(
    owner: Membership, monkeypatch: pytest.MonkeyPatch
):
    def away(*_: object) -> None:
        raise OSError("The storage is away.")

    elsewhere = factories.member(Role.OWNER)
    job = request_import(stored=store(ContentFile(exported(owner)), filename="a.zip"), by=elsewhere)
    with monkeypatch.context() as storage:
        storage.setattr(FileSystemStorage, "delete", away)
        with pytest.raises(OSError, match="away"):
            import_workspace(str(job.pk))
    job.refresh_from_db()
    assert job.state == "done"
    name = job.file
    assert default_storage.exists(name)
    expire()
    job.refresh_from_db()
    assert job.file == ""
    assert not default_storage.exists(name)
