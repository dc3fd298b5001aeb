"""Freezing a version in the browser: the preview updates with the rules, the page with the worker's progress."""

import re

import pytest
from playwright.sync_api import expect

from apps.accounts.models import Role
from apps.datasets.models import Version
from tests import factories

pytestmark = pytest.mark.browser

SHOWN_OVER_ASIDE = """
    () => [...document.querySelectorAll(".table-wrap")]
        .filter((wrap) => !wrap.closest(".aside") && getComputedStyle(wrap).overflowX === "visible")
        .filter((wrap) => wrap.getBoundingClientRect().left + wrap.scrollWidth > document.querySelector(".aside").getBoundingClientRect().left)
        .map((wrap) => wrap.innerText)
"""


def test_a_version_is_previewed_frozen_and_verified(open_as, live_stack):
    ada = factories.member(Role.RESEARCHER)
    queue = factories.queue(of=ada.workspace, name="Office pairs")
    for strength in (3, 1, -2, 0):
        factories.preference(strength, on=factories.item(of=queue))
    page = open_as(ada.user)
    page.goto("/datasets/new/")
    page.get_by_label("Name").fill("Office")
    page.get_by_role("button", name="Create and choose judgments").click()

    preview = page.locator("#preview")
    page.get_by_label("Office pairs").check()
    expect(preview.locator(".figure").first).to_have_text("3")
    page.get_by_label("Smallest strength").select_option(label="clearly better")
    expect(preview.locator(".figure").first).to_have_text("2")
    expect(preview).to_contain_text("Weaker than the strength asked for")
    page.get_by_label("Train").fill("50")
    expect(preview).to_contain_text("The shares add up to 70 %")
    page.get_by_label("Train").fill("80")
    preview.get_by_role("button", name="Freeze version 1").click()
    page.get_by_role("dialog").get_by_role("button", name="Freeze version 1").click()

    expect(page).to_have_url(re.compile(r"/v/1/$"))
    expect(page.get_by_text("Frozen", exact=True).first).to_be_visible(timeout=60_000)
    expect(page.get_by_role("heading", name="Annotators")).to_be_visible()
    assert Version.objects.get().row_counts == {"train": 2, "validation": 0, "test": 0}

    page.set_viewport_size({"width": 1100, "height": 800})
    assert page.evaluate(SHOWN_OVER_ASIDE) == []

    page.keyboard.press("v")
    expect(page.locator("#verification")).to_contain_text("Every file is unchanged since it was frozen.")
    page.keyboard.press("e")
    expect(page.get_by_role("dialog")).to_contain_text("Authorization: Bearer $RETRACE_TOKEN")
