"""The API documentation page, with its request console."""

import pytest
from playwright.sync_api import Page, expect

from tests import factories
from tests.live import LiveStack

pytestmark = pytest.mark.browser


def test_a_call_is_tried_in_the_browser_with_a_token(page: Page, live_stack: LiveStack) -> None:
    member = factories.member()
    page.goto("/api/docs/")
    page.get_by_role("button", name="Authorize").first.click()
    bearer = page.locator(".auth-container").filter(has_text="bearer")
    bearer.get_by_role("textbox").fill(factories.token(member))
    bearer.get_by_role("button", name="Apply credentials").click()
    bearer.get_by_role("button", name="Close").click()
    page.locator("#operations-tag-datasets").scroll_into_view_if_needed()  # lazily rendered
    call = page.locator("#operations-datasets-datasets_list")
    call.get_by_text("List datasets").click()
    call.get_by_role("button", name="Try it out").click()
    call.get_by_role("button", name="Execute").click()
    expect(call.locator(".live-responses-table .response-col_status").last).to_contain_text("200")
    expect(call.locator(".live-responses-table")).to_contain_text('"results": []')
