"""Runs side by side: differing settings first, the curves of each, and no runs of other workspaces."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import Role
from apps.training.comparison import settings_of
from apps.training.models import Metric, Run
from tests import factories

pytestmark = pytest.mark.django_db


def a_run(member, name: str, *, steps: int = 3, **config: object) -> Run:
    run = factories.run(of=member.workspace, name=name, config={"optimizer": {"batch_size": 4}, "seed": 0, **config})
    Metric.objects.bulk_create(Metric(run=run, step=step, values={"loss": 1 / step}) for step in range(1, steps + 1))
    return run


@pytest.fixture
def member(client: Client):
    made = factories.member()
    client.force_login(made.user)
    return made


def test_the_page_names_the_curves_of_each_run(client: Client, member):
    runs = [a_run(member, name) for name in ("one", "two")]
    page = client.get(reverse("training:compare"), {"run": [str(run.pk) for run in runs]})
    assert page.context["sources"] == [
        {"name": run.name, "url": reverse("training:series", args=[run.pk])} for run in runs
    ]
    assert "data-compare" in page.content.decode()


def test_settings_that_differ_come_first(member):
    runs = [a_run(member, "one", beta=0.1), a_run(member, "two", beta=0.2, lora={"rank": 8})]
    settings = settings_of(runs)
    assert {setting.name: setting.values for setting in settings if setting.differs}.items() >= {
        "beta": ["0.1", "0.2"],
        "lora.rank": ["–", "8"],
    }.items()
    differs = [setting.differs for setting in settings]
    assert differs == sorted(differs, reverse=True)
    assert next(setting for setting in settings if setting.name == "optimizer.batch_size").values == ["4", "4"]


def test_the_page_asks_as_much_for_three_runs_as_for_two(client: Client, member):
    runs = [a_run(member, name) for name in ("one", "two", "three")]

    def queries(count: int) -> int:
        with CaptureQueriesContext(connection) as counted:
            page = client.get(reverse("training:compare"), {"run": [str(run.pk) for run in runs[:count]]})
        assert page.content.decode().count("/series/") == count
        return len(counted)

    queries(2)
    assert queries(3) == queries(2)


def test_one_run_or_nonsense_asks_for_a_choice_and_too_many_are_refused(client: Client, member):
    run = a_run(member, "only")
    page = client.get(reverse("training:compare"), {"run": [str(run.pk), "nonsense"]}).content.decode()
    assert f'value="{run.pk}" checked' in " ".join(page.split())
    assert "data-compare" not in page
    many = [str(a_run(member, f"run-{number}").pk) for number in range(7)]
    assert "Choose at most 6 training runs" in client.get(reverse("training:compare"), {"run": many}).content.decode()


def test_other_workspaces_runs_are_not_compared(client: Client, member):
    mine, theirs = a_run(member, "mine"), a_run(factories.member(), "their secret run")
    page = client.get(reverse("training:compare"), {"run": [str(mine.pk), str(theirs.pk)]}).content.decode()
    assert "their secret run" not in page
    client.force_login(factories.member(Role.REVIEWER, of=member.workspace).user)
    assert client.get(reverse("training:compare")).status_code == 404
