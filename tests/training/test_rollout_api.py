"""Rollouts over REST, as researchers, lower roles and outsiders."""

import pytest
from django.urls import reverse

from apps.accounts.models import Role
from apps.jobs.models import JobState
from apps.trajectories.models import RolloutBatch
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def researcher(client):
    member = factories.member(Role.RESEARCHER)
    client.force_login(member.user)
    return member


def start(client, member, **changes):
    body = {"policy": str(factories.policy(of=member.workspace).pk), "environment": "office", "count": 3, **changes}
    return client.post(reverse("v1:rollouts"), body, content_type="application/json")


def test_rollouts_start_and_can_be_cancelled_and_resumed(client, researcher):
    answer = start(client, researcher, samples=2, levels=["L1"], seed=7, steps=9, tool_calls="react")
    assert answer.status_code == 201, answer.json()
    batch = RolloutBatch.objects.get(pk=answer.json()["id"])
    assert (batch.total, batch.config["tasks"]["levels"], batch.config["tasks"]["seed"]) == (6, ["L1"], 7)
    assert (batch.config["budget"], batch.config["tool_calls"]) == ({"steps": 9}, "react")
    one = reverse("v1:rollout", args=[batch.pk])
    assert client.get(one).headers["Retry-After"] == "2"
    cancel, resume = (reverse(f"v1:rollout_{verb}", args=[batch.pk]) for verb in ("cancel", "resume"))
    assert client.post(resume).status_code == 409
    assert client.post(cancel).json()["state"] == JobState.CANCELLED
    assert client.post(cancel).status_code == 409
    assert client.post(resume).json()["state"] == JobState.WAITING


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"environment": "moon"}, "no environment 'moon'"),
        ({"levels": ["L99"]}, "no level 'L99'"),
        ({"policy": "00000000-0000-0000-0000-000000000000"}, "no such policy"),
        ({"count": 0}, "This is too small. Give 1 or more."),
        ({"steps": 201}, "This is too large. Give 200 or less."),
        ({"steps": 1001, "played_by": "runners"}, "This is too large. Give 1000 or less."),
    ],
)
def test_refusals_say_what_was_given_and_expected(client, researcher, changes, words):
    answer = start(client, researcher, **changes)
    assert answer.status_code == 400
    assert words in answer.json()["detail"]


def test_what_came_of_them_is_listed_by_their_id(client, researcher):
    batch = RolloutBatch.objects.create(
        workspace=researcher.workspace, policy=factories.policy(of=researcher.workspace), environment="office"
    )
    task = factories.task(of=researcher.workspace)
    run, _ = factories.trajectory(of=task, rollout_batch=batch), factories.trajectory(of=task)
    listed = client.get(reverse("v1:trajectories"), {"rollouts": str(batch.pk)}).json()["results"]
    assert [row["id"] for row in listed] == [str(run.pk)]


@pytest.mark.parametrize("role", [Role.ANNOTATOR, Role.REVIEWER, None])
def test_lower_roles_and_outsiders_find_nothing(client, role):
    home = factories.member(Role.OWNER).workspace
    batch = RolloutBatch.objects.create(workspace=home, policy=factories.policy(of=home), environment="office")
    client.force_login((factories.member(role, of=home) if role else factories.member(Role.OWNER)).user)
    assert client.get(reverse("v1:rollout", args=[batch.pk])).status_code == 404
    assert client.post(reverse("v1:rollout_cancel", args=[batch.pk])).status_code == 404
    assert client.post(reverse("v1:rollout_resume", args=[batch.pk])).status_code == 404
    batch.refresh_from_db()
    assert batch.state == JobState.WAITING
