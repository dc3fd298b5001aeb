"""The list of policies in a real browser."""

import pytest

from apps.accounts.models import Role
from apps.policies.models import Policy
from tests import factories
from tests.policies.test_held_out_success import attempted, tasks

pytestmark = pytest.mark.browser


def test_success_on_three_levels_leaves_the_list_within_its_window(open_as, live_stack):
    researcher = factories.member(Role.RESEARCHER)
    base = factories.policy(of=researcher.workspace, kind=Policy.Kind.MODEL, name="office-sft")
    policy = factories.policy(of=researcher.workspace, kind=Policy.Kind.MODEL, name="office-reward", base=base)
    for level in ("L1", "L2", "L3"):
        attempted(policy, {task: [number < 3] for number, task in enumerate(tasks(researcher, level, 10))})
    page = open_as(researcher.user, viewport={"width": 1366, "height": 768})
    page.goto("/policies/")
    assert page.locator("svg.interval").count() == 3
    assert page.evaluate("document.documentElement.scrollWidth") <= 1366
