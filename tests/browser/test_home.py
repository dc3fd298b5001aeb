"""One key on the home page opens the next step."""

import re

import pytest
from playwright.sync_api import expect

from apps.accounts.models import Role
from apps.annotation.models import Assignment
from tests import factories

pytestmark = pytest.mark.browser


def test_an_annotator_continues_with_one_key(open_as, live_stack):
    ada = factories.member(Role.ANNOTATOR)
    queue = factories.queue(of=ada.workspace, name="Office pairs", item_count=1)
    factories.item(of=queue, position=0)
    page = open_as(ada.user)
    page.goto("/")
    expect(page.get_by_role("heading", name="Office pairs")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/desk/"))
    assert Assignment.objects.get().annotator.user == ada.user


def test_a_researcher_goes_to_what_needs_a_decision_with_one_key(open_as, live_stack):
    page = open_as(factories.member(Role.RESEARCHER).user)
    page.goto("/")
    expect(page.get_by_role("heading", name="Connect your agent")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/imports/$"))


def test_the_loop_is_walked_to_a_station(open_as, live_stack):
    page = open_as(factories.member(Role.RESEARCHER).user)
    page.goto("/")
    page.get_by_role("link", name="Policies").last.click()
    expect(page).to_have_url(re.compile("/policies/$"))
