"""Several people in one workspace: a comment with a mention, and items assigned to one of them, by keyboard."""

import re

import pytest
from playwright.sync_api import expect

from apps.accounts.models import Role
from apps.annotation.models import ItemAssignee
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.browser


def test_a_comment_reaches_whom_it_names_and_items_go_to_whom_they_are_assigned(open_as, live_stack):
    researcher = factories.member(Role.RESEARCHER)
    ada = factories.member(Role.REVIEWER, of=researcher.workspace, name="Ada Byron")
    run = factories.imported_run(
        [{"context": [], "message": {"role": "assistant", "content": "Done."}}], of=researcher.workspace
    )
    queue = builders.queue(of=researcher.workspace, items=3)

    page = open_as(researcher.user)
    page.goto(f"/trajectories/{run.pk}/")
    expect(page.get_by_label("Comment", exact=True)).to_be_visible()
    page.keyboard.press("m")
    page.keyboard.type("Ends too early. ")
    page.get_by_label("Mention").select_option("Ada Byron")
    expect(page.get_by_label("Comment", exact=True)).to_have_value("Ends too early. @Ada Byron ")
    page.get_by_role("button", name="Comment", exact=True).click()
    expect(page.locator("#comments li")).to_contain_text("Ends too early. @Ada Byron")
    expect(page.get_by_label("Comment", exact=True)).to_have_value("")

    page.goto(f"/queues/{queue.pk}/items/")
    boxes = page.locator("input[name=item]")
    boxes.nth(0).check()
    boxes.nth(2).check()
    page.keyboard.press("a")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Assign 2 items")
    dialog.get_by_label("Ada Byron").check()
    dialog.get_by_role("button", name="Assign", exact=True).click()
    expect(page.locator(".bulk-acts")).to_contain_text("Assigned 2 items to Ada Byron")
    assert ItemAssignee.objects.filter(user=ada.user).count() == 2
    page.get_by_role("button", name=re.compile("Undo: Assigned 2 items")).click()
    expect(page.locator(".bulk-acts")).to_contain_text("undone")
    assert not ItemAssignee.objects.exists()

    hers = open_as(ada.user)
    hers.goto("/")
    mention = hers.locator(".mentions li")
    expect(mention).to_contain_text("Ends too early.")
    mention.get_by_role("button").click()
    expect(hers.locator(".mentions")).to_have_count(0)


def test_items_can_be_picked_on_a_phone(open_as, live_stack):
    researcher = factories.member(Role.RESEARCHER)
    queue = builders.queue(of=researcher.workspace, items=2)
    page = open_as(researcher.user, viewport={"width": 390, "height": 844})
    page.goto(f"/queues/{queue.pk}/items/")
    page.locator("input[name=item]").nth(1).check()
    expect(page.locator(".bulk")).to_contain_text("1 selected")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
