"""Exporting and importing a workspace with the client and the command, with a real worker."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from retrace import Client, RequestRefused

from apps.accounts.models import Membership, Role, Workspace
from apps.trajectories.models import Step, Trajectory
from tests import factories
from tests.client.test_command import SOURCE
from tests.live import LiveStack


@pytest.fixture
def owner(workspace: Workspace) -> Membership:
    member = factories.member(Role.OWNER, of=workspace)
    for number in range(3):
        step = {"context": [], "message": factories.assistant_message(f"Answer {number}.")}
        factories.imported_run([step], of=workspace, task_key=f"task-{number}")
    return member


def test_a_workspace_is_exported_and_imported_elsewhere(
    live_stack: LiveStack, owner: Membership, tmp_path: Path
) -> None:
    file = tmp_path / "workspace.zip"
    with Client(live_stack.url, factories.token(owner)) as client:
        export = client.export_workspace(to=file)
        assert export.state == "done"
        assert hashlib.sha256(file.read_bytes()).hexdigest() == export.sha256
        with pytest.raises(RequestRefused, match="without content"):
            client.import_workspace(file)
        assert client.exports.delete(export.id).has_archive is False
    elsewhere = factories.member(Role.OWNER)
    with Client(live_stack.url, factories.token(elsewhere)) as client:
        job = client.wait(client.import_workspace(file))
        assert (job.state, job.counts["trajectories.trajectory"]) == ("done", 3)
        assert [person.email for person in job.people] == [owner.user.email]
    assert Trajectory.objects.filter(workspace=elsewhere.workspace).count() == 3
    assert Step.objects.filter(trajectory__workspace=elsewhere.workspace).count() == 3


def test_the_command_exports_and_imports(live_stack: LiveStack, owner: Membership, tmp_path: Path) -> None:
    def retrace(member: Membership, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "RETRACE_URL": live_stack.url}
        command = [sys.executable, "-m", "retrace", *arguments]
        return subprocess.run(
            command,
            env={**environment, "RETRACE_TOKEN": factories.token(member)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    sent = retrace(owner, "workspace", "export", "--to", "moved.zip", "--json")
    assert sent.returncode == 0, sent.stderr
    assert json.loads(sent.stdout)["bytes"] == (tmp_path / "moved.zip").stat().st_size
    done = retrace(factories.member(Role.OWNER), "workspace", "import", "moved.zip")
    assert done.returncode == 0, done.stderr
    assert "1 person to invite" in done.stdout
    refused = retrace(owner, "workspace", "import", "moved.zip")
    assert refused.returncode == 1
    assert "without content" in refused.stderr
