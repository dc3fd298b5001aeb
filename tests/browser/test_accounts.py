"""Accounts in the browser: signing in, inviting, joining, remapping keys."""

import re

import pytest
from django.contrib.sessions.models import Session
from django.core.cache import cache
from playwright.sync_api import expect

from apps.accounts.models import ApiToken, Membership, Role
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def _limits_start_afresh():
    cache.clear()


@pytest.fixture
def owner(live_stack):
    return factories.member(Role.OWNER, email="ada@example.org", name="Ada", of=factories.workspace(name="Shop agents"))


def test_signing_in_and_out_by_keyboard(page, owner, console):
    console.expect(r"status of 422")  # the browser logs the refused first attempt
    page.goto("/settings/members/")
    page.keyboard.type("ada@example.org")
    page.keyboard.press("Tab")
    page.keyboard.type("wrong-password")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No account has this e-mail address and password.")).to_be_visible()
    page.get_by_label("Password").fill("pass-phrase-1")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/settings/members/$"))
    page.wait_for_load_state()  # the address changes before the scripts that handle keys have run
    page.keyboard.press("g")
    page.keyboard.press("h")
    expect(page).to_have_url(re.compile(r":\d+/$"))
    page.locator("#person-menu summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_what_was_entered_survives_the_end_of_the_session(open_as, owner):
    queue = builders.queue(of=owner.workspace)
    page = open_as(owner.user)
    page.goto(f"/queues/{queue.pk}/guidelines/")
    with page.expect_response("**/preview/"):
        page.locator("textarea[name=text]").fill("# A long text\nthat nobody wants to write twice")
    Session.objects.all().delete()
    page.get_by_role("button", name="Save as version").click()
    page.get_by_label("E-mail").fill("ada@example.org")
    page.get_by_label("Password").fill("pass-phrase-1")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("textarea[name=text]")).to_have_value("# A long text\nthat nobody wants to write twice")
    expect(page.locator(".toast")).to_contain_text("wasn't sent")
    page.get_by_role("button", name="Save as version").click()
    expect(page.get_by_text("The guidelines are now version 1.")).to_be_visible()
    page.goto(f"/queues/{queue.pk}/guidelines/")
    expect(page.locator(".toast", has_text="wasn't sent")).to_have_count(0)


def test_an_invitation_leads_a_new_person_into_the_workspace(open_as, owner):
    page = open_as(owner.user)
    page.goto("/settings/members/")
    page.get_by_label("E-mail address").fill("ben@example.org")
    page.get_by_role("button", name="Create link").click()
    link = page.locator("#invitation-link").inner_text()

    guest = open_as(None)
    guest.goto(link)
    guest.get_by_label("Your name").fill("Ben")
    guest.get_by_label("New password").fill("four-words-of-mine")
    guest.get_by_role("button", name="Create account and join").click()
    expect(guest.get_by_text("You are in Shop agents, as Annotator.")).to_be_visible()
    expect(guest.get_by_text("Nothing is waiting for you")).to_be_visible()


def test_a_role_changes_in_place_and_a_removal_asks_first(open_as, owner):
    ben = factories.member(Role.ANNOTATOR, of=owner.workspace, name="Ben")
    page = open_as(owner.user)
    page.goto("/settings/members/")
    page.get_by_label("Role of Ben").focus()
    page.get_by_label("Role of Ben").select_option("Reviewer")
    expect(page.get_by_text("Ben is now Reviewer.")).to_be_visible()
    expect(page.get_by_label("Role of Ben")).to_be_focused()
    ben.refresh_from_db()
    assert ben.role == Role.REVIEWER
    page.get_by_role("button", name="Remove Ben").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert Membership.objects.filter(pk=ben.pk).exists()
    page.get_by_role("button", name="Remove Ben").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove Ben").click()
    expect(page.get_by_text("Ben is no longer in Shop agents.")).to_be_visible()


def test_a_token_is_made_shown_once_and_revoked(open_as, owner):
    page = open_as(owner.user)
    page.goto("/settings/tokens/")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Create token").click()
    expect(page.locator("#token-secret")).to_have_text(re.compile(r"^rt_[\w-]{43}$"))
    page.goto("/settings/tokens/")
    expect(page.locator("#token-secret")).to_have_count(0)
    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke token").click()
    expect(page.get_by_text("“laptop” no longer works.")).to_be_visible()
    assert not ApiToken.objects.usable().exists()


def test_the_workspace_menu_switches(open_as, owner):
    Membership.objects.create(user=owner.user, workspace=factories.workspace(name="Office agents"), role=Role.OWNER)
    page = open_as(owner.user)
    page.goto("/")
    page.locator("#workspace-menu summary").click()
    page.get_by_role("button", name="Office agents").click()
    expect(page.get_by_role("heading", name="Office agents")).to_be_visible()


def test_theme_and_keys_follow_the_person_to_another_browser(open_as, owner):
    here = open_as(owner.user, color_scheme="light")
    here.goto("/profile/")
    with here.expect_response(re.compile("/profile/preferences/")):
        here.get_by_role("button", name="Dark").last.click()
    here.keyboard.press("?")
    dialog = here.get_by_role("dialog", name="Keyboard shortcuts")
    dialog.get_by_role("listitem").filter(has_text="Home").get_by_role("button").click()
    with here.expect_response(re.compile("/profile/preferences/")):
        here.keyboard.press("H")

    there = open_as(owner.user, color_scheme="light")
    there.goto("/profile/")
    assert there.evaluate("document.documentElement.dataset.theme") == "dark"
    expect(there.get_by_text("Go to/Home")).to_be_visible()
    there.keyboard.press("H")
    expect(there).to_have_url(re.compile(r":\d+/$"))


def test_pages_fit_a_phone(open_as, owner):
    page = open_as(owner.user, viewport={"width": 390, "height": 844})
    for path in ("/", "/settings/members/", "/settings/tokens/", "/settings/audit/", "/profile/", "/workspaces/"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") == 390, path
