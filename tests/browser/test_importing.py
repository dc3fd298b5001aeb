"""Importing in a real browser: choose a file, watch the progress, look at rejected rows."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import Role
from apps.trajectories.models import ImportBatch, Trajectory
from tests import factories
from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.parts import CHAT
from tests.trajectories.uploads import lines

pytestmark = pytest.mark.browser


def shot(page: Page, name: str) -> None:
    """Save a screenshot if requested with SHOTS=folder."""
    import os

    if folder := os.environ.get("SHOTS"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def test_a_file_goes_in_while_one_watches(open_as: Callable[..., Page], tmp_path: Path) -> None:
    member = factories.member(Role.RESEARCHER)
    page = open_as(member.user)
    file = tmp_path / "chats.jsonl"
    chats = [{"messages": [*CHAT, {"role": "user", "content": f"thanks {n}"}], "reward": n % 2} for n in range(3000)]
    file.write_bytes(lines(*chats, {"messages": [{"role": "pirate", "content": "<img src=x onerror=alert(1)>"}]}))
    page.goto("/imports/")
    expect(page.get_by_role("heading", name="Nothing imported yet")).to_be_visible()
    shot(page, "imports-empty")
    page.get_by_label("Files").set_input_files(file)
    page.get_by_role("button", name="Import").click()
    page.wait_for_url(re.compile(r"/imports/[0-9a-f-]{36}/"))
    expect(page.get_by_role("heading", name="chats.jsonl")).to_be_visible()
    expect(page.get_by_text("The whole file was processed.")).to_be_visible(timeout=30_000)
    expect(page.locator(".stat", has_text="trajectories")).to_contain_text("3,000")
    expect(page.get_by_text("A message has the role “pirate”.")).to_be_visible()
    assert ImportBatch.objects.get().format == "openai-chat"
    assert Trajectory.objects.count() == 3000
    shot(page, "import-done")
    with page.expect_download() as download:
        page.get_by_role("link", name="JSON Lines").click()
    (row,) = [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]
    assert row["line"] == 3001
    page.goto("/imports/")
    expect(page.get_by_role("link", name="chats.jsonl")).to_be_visible()
    shot(page, "imports")


def test_a_file_of_another_kind_says_what_was_seen_and_can_be_tried_again(
    open_as: Callable[..., Page], tmp_path: Path
) -> None:
    page = open_as(factories.member(Role.RESEARCHER).user, viewport={"width": 390, "height": 844}, color_scheme="dark")
    file = tmp_path / "metrics.json"
    file.write_bytes(lines({"resourceMetrics": []}))
    page.goto("/imports/")
    page.get_by_label("Files").set_input_files(file)
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("alert")).to_contain_text(
        "the first record has the keys `resourceMetrics`.", timeout=30_000
    )
    shot(page, "import-failed-390")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_contain_text("resourceMetrics", timeout=30_000)
    assert ImportBatch.objects.get().attempt == 2


def test_several_files_at_once_and_a_form_without_one(open_as: Callable[..., Page], tmp_path: Path) -> None:
    page = open_as(factories.member(Role.RESEARCHER).user)
    files = [tmp_path / f"{name}.jsonl" for name in "ab"]
    for number, file in enumerate(files):
        file.write_bytes(lines({**EXAMPLES["retrace"], "id": f"r{number}"}))
    page.goto("/imports/")
    page.get_by_label("Files").set_input_files(files)
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_text("2 imports started.")).to_be_visible()
    expect(page.locator("tbody tr .row-link")).to_have_count(2)


def test_what_others_judged_becomes_judgments_once_it_is_said_what_it_means(
    open_as: Callable[..., Page], tmp_path: Path
) -> None:
    page = open_as(factories.member(Role.RESEARCHER).user)
    file = tmp_path / "preferences.jsonl"
    pair = {"response1": "yes", "response2": "no"}
    verdicts = [(1, 1, 2), (2, 2, 2), (1, 0, 1)]
    rows = [
        {
            "instruction": f"Is {n} a number?",
            **pair,
            **{f"annotator{i}": value for i, value in enumerate(verdict, start=1)},
        }
        for n, verdict in enumerate(verdicts)
    ]
    file.write_bytes(lines(*rows))
    page.goto("/imports/")
    page.get_by_label("Files").set_input_files(file)
    page.get_by_role("button", name="Import").click()
    page.get_by_role("link", name="Use its judgments").click(timeout=30_000)
    for value, meaning in (("0", "tie"), ("1", "answer 1 clearly better"), ("2", "answer 2 clearly better")):
        page.get_by_label(value, exact=True).select_option(label=meaning)
    expect(page.locator("#preview")).to_contain_text("annotator3")
    expect(page.locator("#preview .stat", has_text="judgments")).to_contain_text("9")
    shot(page, "adopt")
    page.get_by_role("button", name="Create judgments").click()
    page.wait_for_url(re.compile(r"/queues/[0-9a-f-]{36}/"))
    expect(page.get_by_role("heading", name="Everything is judged")).to_be_visible(timeout=30_000)
    expect(page.get_by_role("row", name=re.compile("annotator2.*imported.*3"))).to_be_visible()
    page.get_by_role("link", name="Quality").click()
    expect(page.get_by_text("9 judgments of 3 items")).to_be_visible()
    shot(page, "adopted-quality")
