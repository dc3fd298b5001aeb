"""A workspace is exported on one page and imported on another, in a real browser."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import Role
from apps.trajectories.models import Trajectory
from tests import factories

pytestmark = pytest.mark.browser


def test_a_workspace_leaves_and_arrives(open_as: Callable[..., Page], tmp_path: Path) -> None:
    owner, elsewhere = factories.member(Role.OWNER), factories.member(Role.OWNER)
    factories.imported_run([{"context": [], "message": factories.assistant_message("Hello.")}], of=owner.workspace)
    page = open_as(owner.user)
    page.goto("/settings/transfer/")
    page.get_by_role("button", name="Export everything").click()
    link = page.get_by_role("link", name="Download the archive")
    expect(link).to_be_visible(timeout=30_000)
    with page.expect_download() as download:
        link.click()
    archive = tmp_path / "workspace.zip"
    download.value.save_as(archive)
    expect(page.get_by_text("already. An archive is imported only into a workspace without content")).to_be_visible()
    page = open_as(elsewhere.user)
    page.goto("/settings/transfer/")
    page.locator("input[name=archive]").set_input_files(archive)
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_text("workspace.zip: done")).to_be_visible(timeout=30_000)
    expect(page.get_by_text(owner.user.email)).to_be_visible()
    assert Trajectory.objects.filter(workspace=elsewhere.workspace).count() == 1
