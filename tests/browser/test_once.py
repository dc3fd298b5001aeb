"""A form being submitted isn't sent again."""

import pytest
from playwright.sync_api import expect

from apps.trajectories.models import RolloutBatch
from tests import factories

pytestmark = pytest.mark.browser


def test_a_second_click_while_the_server_works_starts_nothing_more(open_as, transactional_db, live_stack):
    researcher = factories.member()
    policy = factories.policy(of=researcher.workspace, name="the expert")
    page = open_as(researcher.user)
    page.goto(f"/rollouts/new/?policy={policy.pk}")
    page.get_by_label("Number of tasks").fill("1")
    page.locator("main form button.primary").evaluate(
        "button => { button.click(); setTimeout(() => button.click(), 40); }"
    )
    expect(page.get_by_text("episodes done")).to_be_visible()
    assert RolloutBatch.objects.count() == 1


def test_a_form_that_asks_first_is_sent_once_somebody_agreed(open_as, transactional_db, live_stack):
    researcher = factories.member()
    batch = RolloutBatch.objects.create(
        workspace=researcher.workspace, policy=factories.policy(of=researcher.workspace), environment="office", total=1
    )
    page = open_as(researcher.user)
    page.goto(f"/rollouts/{batch.pk}/")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button").last.click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
