"""Experiments over REST, as researchers, lower roles and outsiders."""

import pytest
from django.urls import reverse

from apps.accounts.models import Role
from apps.arena.models import Experiment
from apps.policies.promotions import champion
from tests import factories
from tests.arena.test_pages import make_experiment

pytestmark = pytest.mark.django_db


@pytest.fixture
def researcher(client):
    member = factories.member(Role.RESEARCHER)
    client.force_login(member.user)
    return member


def start(client, member, **changes):
    body = {
        "name": "better?",
        "policy_a": str(factories.policy(of=member.workspace).pk),
        "policy_b": str(factories.policy(of=member.workspace).pk),
        "environment": "office",
        "tasks": 4,
        "min_tasks": 2,
        **changes,
    }
    return client.post(reverse("v1:experiments"), body, content_type="application/json")


def test_an_experiment_starts_with_both_rollouts_and_a_plan_that_is_fixed(client, researcher):
    answer = start(client, researcher)
    assert answer.status_code == 201, answer.json()
    experiment = Experiment.objects.get(pk=answer.json()["id"])
    assert answer.headers["Location"].endswith(reverse("v1:experiment", args=[experiment.pk]))
    assert (experiment.plan["tasks"], experiment.rule.min_tasks) == (4, 2)
    assert experiment.rollouts_a.config["tasks"] == experiment.rollouts_b.config["tasks"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"environment": "moon"}, "environment"),
        ({"tasks": 1}, "tasks"),
        ({"policy_b": "00000000-0000-0000-0000-000000000000"}, "policy_b"),
        ({"name": ""}, "name"),
    ],
)
def test_what_is_wrong_is_named_by_field(client, researcher, changes, field):
    answer = start(client, researcher, **changes)
    assert answer.status_code == 400
    assert list(answer.json()["fields"]) == [field]
    assert not Experiment.objects.exists()


def test_reading_gives_the_figures_of_the_moment(client, researcher):
    experiment = make_experiment(researcher.workspace)
    answer = client.get(reverse("v1:experiment", args=[experiment.pk])).json()
    assert (answer["state"], answer["standing"]["items_judged"]) == ("labeling", 0)
    assert answer["standing"]["win_rate"]["n"] == 0


def test_stopping_early_closes_it_once(client, researcher):
    experiment = make_experiment(researcher.workspace)
    stop = reverse("v1:experiment_stop", args=[experiment.pk])
    first = client.post(stop)
    assert (first.status_code, first.json()["verdict"]["stopped_by_rule"]) == (200, False)
    assert client.post(stop).status_code == 409


def test_promoting_needs_one_of_the_two_and_a_reason(client, researcher):
    experiment = make_experiment(researcher.workspace)
    promote = reverse("v1:experiment_promote", args=[experiment.pk])
    other = factories.policy(of=researcher.workspace)
    for body, field in (
        ({"policy": str(other.pk), "reason": "x"}, "policy"),
        ({"policy": str(experiment.policy_b_id)}, "reason"),
    ):
        answer = client.post(promote, body, content_type="application/json")
        assert (answer.status_code, list(answer.json()["fields"])) == (400, [field])
    body = {"policy": str(experiment.policy_b_id), "reason": "it wins"}
    assert client.post(promote, body, content_type="application/json").status_code == 200
    assert champion(workspace=researcher.workspace, environment="office") == experiment.policy_b
    assert client.post(promote, body, content_type="application/json").status_code == 409


@pytest.mark.parametrize("role", [Role.ANNOTATOR, Role.REVIEWER, None])
def test_lower_roles_and_outsiders_find_nothing(client, role):
    home = factories.member(Role.OWNER).workspace
    experiment = make_experiment(home)
    client.force_login((factories.member(role, of=home) if role else factories.member(Role.OWNER)).user)
    one = reverse("v1:experiment", args=[experiment.pk])
    assert client.get(one).status_code == 404
    assert client.post(reverse("v1:experiment_stop", args=[experiment.pk])).status_code == 404
    assert client.post(reverse("v1:experiment_promote", args=[experiment.pk])).status_code == 404
    listed = client.get(reverse("v1:experiments"))
    assert listed.status_code == 404 if role else listed.json()["results"] == []
