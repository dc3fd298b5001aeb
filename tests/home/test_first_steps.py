"""The home page leads a new workspace around the loop, with its own data."""

import re

import pytest
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import Membership, Role
from apps.training.models import Run
from tests import factories
from tests.accounts.clients import as_
from tests.annotation import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def researcher() -> Membership:
    return factories.member(Role.RESEARCHER)


def next_step(member: Membership) -> tuple[int, str, str]:
    """The number of completed steps, the next step, and the page to which its button leads."""
    page = as_(member).get(reverse("home")).content.decode()
    current = re.search(r'<li aria-current="step">.*?<b>([^<]+)</b>.*?</li>', page, re.S)
    button = re.search(
        r'<(?:a class="button[^"]*"[^>]* href|form [^>]*action)="([^"]+)"', _with_button(current[0], page)
    )
    return page.count('class="step-mark done"'), current[1], button[1].partition("?")[0]


def _with_button(step: str, page: str) -> str:
    """The step if it has a button; otherwise the page's suggestion above the steps."""
    return step if "button" in step else page[page.index("</h1>") :]


def test_an_empty_workspace_begins_with_an_import(researcher: Membership):
    assert next_step(researcher) == (0, "Import your trajectories", reverse("trajectories:imports"))


def test_trajectories_are_to_be_judged(researcher: Membership):
    factories.trajectory(of=factories.task(of=researcher.workspace))
    assert next_step(researcher) == (1, "Judge them", reverse("try_labeling"))
    queue = builders.queue(of=researcher.workspace)
    assert next_step(researcher) == (1, "Judge them", reverse("annotation:desk", args=[queue.pk]))


def test_each_step_that_was_taken_is_done_and_says_what_there_is(researcher: Membership):
    queue = builders.queue(of=researcher.workspace)
    builders.judge(queue, builders.rule(of=researcher.workspace), 2)
    assert next_step(researcher) == (2, "Freeze the judgments", reverse("datasets:list"))
    assert "2 trajectories" in as_(researcher).get(reverse("home")).content.decode()
    assert "1 judgment<" in as_(researcher).get(reverse("home")).content.decode()
    version = factories.dataset_version(of=researcher.workspace)
    assert next_step(researcher) == (3, "Train on the version", reverse("training:new"))
    run = factories.run(of=researcher.workspace, version=version, state=Run.State.QUEUED)
    assert next_step(researcher) == (3, "Train on the version", reverse("training:new"))  # without a result yet
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED, finished_at=now())
    assert next_step(researcher) == (4, "Compare the new policy, blind", reverse("arena:new"))


def test_what_others_have_is_no_step_of_ours(researcher: Membership):
    factories.trajectory(of=factories.task())
    assert next_step(researcher)[0] == 0


def test_annotators_are_not_led_around_a_loop_that_they_cannot_see(researcher: Membership):
    annotator = factories.member(Role.ANNOTATOR, of=researcher.workspace)
    assert "Your first round" not in as_(annotator).get(reverse("home")).content.decode()
