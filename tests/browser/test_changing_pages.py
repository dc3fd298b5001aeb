"""What other people and the workers do shows on open pages by itself, with what can be done then."""

import pytest
from django.utils.timezone import now
from playwright.sync_api import expect

from apps.accounts.models import Role
from apps.datasets.models import Version
from tests import factories
from tests.annotation import making

pytestmark = pytest.mark.browser


def test_a_queue_that_is_judged_elsewhere_offers_to_freeze_without_a_reload(open_as, live_stack):
    researcher = factories.member(Role.RESEARCHER)
    queue = making.queue(of=researcher.workspace, items=1, overlap=1)
    page = open_as(researcher.user)
    page.goto(f"/queues/{queue.pk}/")
    expect(page.get_by_role("link", name="Label")).to_be_visible()
    expect(page.get_by_role("link", name="Freeze")).to_have_count(0)
    page.evaluate("window.stayed = true")
    making.judge(queue, making.rule(of=researcher.workspace), 2)
    expect(page.get_by_role("link", name="Freeze")).to_be_visible()
    assert page.evaluate("window.stayed")


def test_a_version_says_that_it_is_frozen_without_a_reload(open_as, live_stack):
    researcher = factories.member(Role.RESEARCHER)
    version = factories.dataset_version(of=researcher.workspace, state="freezing", frozen_at=None)
    page = open_as(researcher.user)
    page.goto(f"/datasets/{version.dataset_id}/")
    expect(page.get_by_text("Freezing")).to_be_visible()
    Version.objects.update(state="frozen", frozen_at=now())
    expect(page.get_by_text("Frozen", exact=True)).to_be_visible()
