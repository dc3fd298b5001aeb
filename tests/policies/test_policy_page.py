"""The page of one policy: its trajectories and what can be done next."""

import pytest
from django.urls import reverse

from apps.accounts.models import Membership, Role
from apps.policies.models import Policy
from apps.policies.queries import InEnvironment, trajectories_by_environment
from apps.trajectories.models import Trajectory
from tests import factories
from tests.accounts.clients import as_

pytestmark = pytest.mark.django_db


@pytest.fixture
def researcher() -> Membership:
    return factories.member(Role.RESEARCHER)


@pytest.fixture
def imported(researcher: Membership) -> Policy:
    """A policy known by name only, with four trajectories at three tasks of two environments, and a branch. Another policy attempted one task too."""
    policy = factories.policy(of=researcher.workspace, kind=Policy.Kind.EXTERNAL)
    first, second = (factories.task(of=researcher.workspace, environment="tau & bench") for _ in range(2))
    nowhere = factories.task(of=researcher.workspace, environment="")
    for task, success in ((first, True), (first, False), (nowhere, True)):
        factories.trajectory(of=task, policy=policy, success=success)
    whole = factories.trajectory(of=second, policy=policy, success=None)
    factories.trajectory(of=second, policy=policy, success=True, parent=whole, branch_step=0)
    factories.trajectory(of=first, policy=factories.policy(of=researcher.workspace), success=False)
    return policy


def page_of(policy: Policy, member: Membership) -> str:
    response = as_(member).get(reverse("policies:policy", args=[policy.pk]))
    return " ".join(response.content.decode().split())


def test_trajectories_are_counted_by_environment(imported: Policy):
    assert trajectories_by_environment(imported) == [
        InEnvironment("", trajectories=1, succeeded=1, failed=0, undecided=0),
        InEnvironment("tau & bench", trajectories=4, succeeded=1, failed=1, undecided=1),
    ]


def test_each_environment_links_to_its_trajectories(imported: Policy, researcher: Membership):
    text = page_of(imported, researcher)
    query = f"?policy={imported.pk}&amp;environment=tau%20%26%20bench"
    assert f'href="{reverse("trajectories:list")}{query}"' in text
    listed = as_(researcher).get(reverse("trajectories:list") + query.replace("&amp;", "&")).content.decode()
    assert listed.count("row-link") == 4


def test_what_is_known_by_name_is_compared_on_its_recorded_trajectories(imported: Policy, researcher: Membership):
    Trajectory.objects.filter(task__environment="").delete()
    address = f"{reverse('arena:new_recorded')}?b={imported.pk}&amp;environment=tau%20%26%20bench"
    assert f'href="{address}"' in page_of(imported, researcher)
    form = as_(researcher).get(address.replace("&amp;", "&")).context["form"]
    assert form["policy_b"].value() == str(imported.pk)
    assert form["environment"].value() == "tau & bench"
    nameless = factories.policy(of=researcher.workspace, kind=Policy.Kind.EXTERNAL)
    assert "No trajectories" in page_of(nameless, researcher)
    assert reverse("arena:new_recorded") not in page_of(nameless, researcher)
