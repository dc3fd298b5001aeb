"""Curves as JSON: complete, then only new steps; downsampled for long runs; inaccessible to others."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import Role
from apps.training.models import Metric, Run, RunReward
from tests import factories
from tests.training.test_kept_rollouts import keep

pytestmark = pytest.mark.django_db


@pytest.fixture
def researcher(client: Client):
    member = factories.member()
    client.force_login(member.user)
    return member


def measure(run: Run, values: dict[int, dict[str, float | None]]) -> None:
    began = now()
    Metric.objects.bulk_create(
        Metric(run=run, step=step, values=metrics, at=began + timedelta(seconds=2 * step))
        for step, metrics in values.items()
    )


def fetched(client: Client, run: Run, **query: object) -> dict:
    return client.get(reverse("training:series", args=[run.pk]), query).json()


def test_what_was_not_measured_is_left_out_and_what_was_no_number_is_null(client, researcher):
    run = factories.run(of=researcher.workspace)
    measure(run, {1: {"loss": 0.75, "tokens": 100}, 2: {"loss": None, "eval/loss": 0.875}, 5: {"loss": 0.5}})
    data = fetched(client, run)
    assert data["steps"] == [1, 2, 5]
    assert data["seconds"] == [0, 2, 8]
    assert data["columns"] == {
        "eval/loss": {"rows": [1], "values": [0.875]},
        "loss": {"values": [0.75, None, 0.5]},
        "tokens": {"rows": [0], "values": [100]},
    }
    [chart] = data["charts"]
    assert (chart["key"], chart["title"], chart["group"]) == ("loss", "Loss", "Optimization")
    assert chart["left"] == {"title": "", "unit": "", "format": ""}
    assert chart["series"] == [
        {"metric": "loss", "name": "training", "band": "", "is_right": False},
        {"metric": "eval/loss", "name": "validation", "band": "", "is_right": False},
    ]


def test_a_band_comes_with_its_curve(client, researcher):
    run = factories.run(of=researcher.workspace)
    measure(run, {1: {"reward": 0.5, "reward_std": 0.25}})
    assert fetched(client, run)["columns"]["reward"] == {"values": [0.5], "lows": [0.25], "highs": [0.75]}


def test_after_a_step_only_what_is_new_is_answered(client, researcher):
    run = factories.run(of=researcher.workspace)
    measure(run, {step: {"loss": step / 4} for step in range(1, 5)})
    data = fetched(client, run, after=2)
    assert (data["steps"], data["seconds"]) == ([3, 4], [4, 6])  # seconds are still counted from the first measurement
    assert data["columns"] == {"loss": {"values": [0.75, 1.0]}}
    assert fetched(client, run, after=4)["steps"] == []
    assert fetched(client, run, after="nonsense")["steps"] == [1, 2, 3, 4]


def test_a_long_run_is_thinned_and_no_spike_is_lost(client, researcher):
    run = factories.run(of=researcher.workspace)
    measure(run, {step: {"loss": 9.0 if step == 501 else 1.0, "tokens": 10 * step} for step in range(1, 801)})
    Metric.objects.filter(run=run, step=400).update(values={"loss": 1.0, "tokens": 4000, "eval/loss": 0.5})
    data = fetched(client, run)
    assert len(data["steps"]) == 400
    assert data["steps"][:2] == [2, 4]  # 800 steps, 2 per point
    loss = data["columns"]["loss"]
    assert (loss["lows"][250], loss["values"][250], loss["highs"][250]) == (1.0, 5.0, 9.0)  # steps 501 and 502
    assert data["columns"]["tokens"]["values"][:2] == [20, 40]  # the value of the last merged step
    bands = {curve["metric"]: curve["band"] for chart in data["charts"] for curve in chart["series"]}
    assert bands == {"loss": "lowest to highest of the merged steps", "eval/loss": ""}
    assert "lows" not in data["columns"]["eval/loss"]  # measured only once


def test_a_long_run_whose_values_have_exploded_is_still_shown(client, researcher):
    run = factories.run(of=researcher.workspace)
    measure(run, {step: {"grad_norm": 2e200 if step == 2 else 1e200} for step in range(1, 801)})
    assert fetched(client, run)["columns"]["grad_norm"]["values"][:2] == [1.5e200, 1e200]


def test_learned_rewards_are_those_of_the_run(client, researcher):
    run = factories.run(of=researcher.workspace)
    model = factories.policy(of=researcher.workspace)
    RunReward.objects.create(run=run, policy=model, term="helpful", component="learned_outcome", weight=1)
    measure(run, {1: {"rewards/helpful/mean": 0.5, "eval/success": 0.25}})
    keys = [chart["key"] for chart in fetched(client, run)["charts"]]
    assert keys == ["success", "reward-by-component", "learned-reward-and-success"]


def test_a_browser_keeps_the_curves_and_asks_whether_they_still_hold(client, researcher):
    run = factories.run(of=researcher.workspace, events_seq=3)
    measure(run, {1: {"loss": 0.5}})
    address = reverse("training:series", args=[run.pk])
    first = client.get(address)
    assert first.headers["Cache-Control"] == "private, no-cache"
    known = {"HTTP_IF_NONE_MATCH": first.headers["ETag"]}
    assert client.get(address, **known).status_code == 304
    Run.objects.filter(pk=run.pk).update(events_seq=4)
    assert client.get(address, **known).status_code == 200


def test_kept_rollouts_are_named_and_change_the_answer(client, researcher):
    run = factories.run(of=researcher.workspace, name="grpo")
    measure(run, {1: {"loss": 0.5}})
    first = client.get(reverse("training:series", args=[run.pk]))
    keep(run, "step-000010")
    second = client.get(reverse("training:series", args=[run.pk]), HTTP_IF_NONE_MATCH=first.headers["ETag"])
    assert (first.json()["sampled"], second.json()["sampled"]) == ([], [10])


@pytest.mark.parametrize("name", ["training:series", "training:tables"])
def test_outsiders_and_annotators_find_nothing(client, researcher, name):
    theirs = factories.run()
    assert client.get(reverse(name, args=[theirs.pk])).status_code == 404
    mine = factories.run(of=researcher.workspace)
    client.force_login(factories.member(Role.ANNOTATOR, of=researcher.workspace).user)
    assert client.get(reverse(name, args=[mine.pk])).status_code == 404


def test_without_scripts_the_curves_are_read_as_tables(client, researcher):
    run = factories.run(of=researcher.workspace)
    measure(run, {1: {"loss": 0.75}, 2: {"loss": None, "eval/loss": 0.875}})
    page = client.get(reverse("training:run", args=[run.pk])).content.decode()
    address = reverse("training:tables", args=[run.pk])
    assert f'href="{address}"' in page
    tables = client.get(address).content.decode()
    assert 'aria-labelledby="table-loss"' in tables
    assert "0.875" in tables
    assert client.get(reverse("training:tables", args=[factories.run(of=researcher.workspace).pk])).status_code == 200
