"""Estimates of a planned run's duration, compared with measurements on two CPU cores."""

import json
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import Role, Workspace
from apps.datasets.models import Version
from apps.training.models import Run
from apps.training.progress import RunUpdate, apply
from contract.configs import DpoConfig, RewardModelConfig, ScratchConfig, SftConfig
from tests import factories
from workers.bridge import capacity, row_lengths
from workers.bridge.capacity import Capacity
from workers.bridge.estimates import CPU_UTILIZATION, shape_of_scratch
from workers.bridge.forecasts import forecast_of
from workers.bridge.row_lengths import chat_tokens
from workers.tasks import check_plan

pytestmark = pytest.mark.django_db
SMALL = shape_of_scratch(ScratchConfig())
CPU = Capacity("CPU", 16_000, on_gpu=False, tflops=2 * 0.091 * CPU_UTILIZATION)
"""The probe's result on the machine where the runs below were recorded: two cores, 91 · 10⁹ operations per second each."""


def version(
    *, characters: int, rows: int, validation: int = 0, of: Workspace | None = None, pairs: bool = False
) -> Version:
    """A version whose chats have this many characters each; their tools have ten times as many."""
    chat = [{"role": "assistant", "content": "x" * characters}]
    row = {"prompt": [], "chosen": chat, "rejected": chat} if pairs else {"messages": chat}
    line = json.dumps({**row, "tools": [{"type": "function", "function": {"name": "y" * 10 * characters}}]}) + "\n"
    name = default_storage.save("train.jsonl", ContentFile(line.encode() * min(rows, 50)))
    counts = {"train": rows, "validation": validation, "test": 0}
    return factories.dataset_version(of=of, row_counts=counts, files={"jsonl": {"train": {"name": name}}})


def sft(**optimizer: Any) -> SftConfig:
    return SftConfig.from_json(
        {
            "kind": "sft",
            "model": {"scratch": {}},
            "data": {"train": "t"},
            "optimizer": {"batch_size": 8, "max_steps": 800, **optimizer},
        }
    )


def reward_model() -> RewardModelConfig:
    return RewardModelConfig.from_json(
        {
            "kind": "reward_model",
            "model": {"path": "base"},
            "data": {"train": "t"},
            "optimizer": {"batch_size": 8, "epochs": 2.0},
            "evaluate_every": 100,
        }
    )


def finished(on: Version, config: SftConfig | RewardModelConfig, **fields: Any) -> Run:
    stored = config.to_json()
    return factories.run(
        of=on.workspace,
        version=on,
        algorithm=config.kind,
        base=None,
        config={"optimizer": stored["optimizer"], "lora": None},
        state=Run.State.FINISHED,
        finished_at=now(),
        parameters=SMALL.parameters,
        device="cpu",
        **fields,
    )


def test_tools_count_only_where_a_template_shows_them():
    """Recorded: 598 characters a chat of the demonstrations were 247 tokens of the small model's tokenizer, 696 of the preferences' 289."""
    assert chat_tokens(version(characters=598, rows=6000), SMALL) == pytest.approx(247, rel=0.05)
    assert chat_tokens(version(characters=696, rows=228, pairs=True), SMALL) == pytest.approx(289, rel=0.05)


def test_of_rows_that_are_as_long_as_an_import_allows_few_are_read(monkeypatch: pytest.MonkeyPatch):
    """Forecasts for other workspaces read them, too."""
    rows = version(characters=598, rows=6000)
    monkeypatch.setattr(row_lengths, "SAMPLED_BYTES", 10_000)
    assert chat_tokens(rows, SMALL) == pytest.approx(247, rel=0.05)
    monkeypatch.setattr(row_lengths, "SAMPLED_BYTES", 1000)
    assert chat_tokens(rows, SMALL) == row_lengths.DEFAULT_TOKENS


def test_the_first_run_of_all_is_right_within_thirty_percent():
    forecast = forecast_of(sft(), SMALL, CPU, version=version(characters=598, rows=6000), base=None)
    assert forecast.high == forecast.low == pytest.approx(252, rel=0.3)
    assert forecast.basis == (
        "calculated from a probe of the worker's processor, assuming that nothing else uses it: there is no similar run here yet"
    )


def test_a_run_like_earlier_ones_takes_as_long_as_those():
    rows = version(characters=598, rows=6000)
    for seconds in (0.29, 0.31, 0.9):  # of one of them the machine was busy
        finished(rows, sft(), step_seconds=seconds)
    forecast = forecast_of(sft(), SMALL, CPU, version=rows, base=None)
    assert forecast.high == forecast.low == pytest.approx(252, rel=0.05)
    assert forecast.basis == "from 3 earlier runs here of this algorithm, size, and kind of worker"


def test_evaluations_count_and_longer_rows_take_longer():
    """Recorded: 57 steps of 3.3 s each and two evaluations of 15 s took 221 s."""
    pairs = version(characters=696, rows=228, validation=144, pairs=True)
    finished(pairs, reward_model(), step_seconds=3.34, evaluation_seconds=15.0)
    alike = forecast_of(reward_model(), SMALL, CPU, version=pairs, base=None)
    assert alike.high == pytest.approx(221, rel=0.05)
    longer = version(characters=1392, rows=228, validation=72, pairs=True)
    twice = forecast_of(reward_model(), SMALL, CPU, version=longer, base=None)
    assert twice.high == pytest.approx(57 * (0.05 + 2 * 3.29) + 2 * 15.0 * 2 / 2)


def test_runs_of_another_size_algorithm_or_device_say_nothing():
    rows = version(characters=598, rows=6000)
    run = finished(rows, sft(), step_seconds=99.0)
    for changes in ({"parameters": 8_000_000_000}, {"algorithm": "kto"}, {"device": "cuda:0"}):
        before = {name: getattr(run, name) for name in changes}
        Run.objects.update(**changes)
        forecast = forecast_of(sft(), SMALL, CPU, version=rows, base=None)
        assert forecast.basis.startswith("calculated"), changes
        Run.objects.update(**before)
    assert forecast_of(sft(), SMALL, CPU, version=rows, base=None).basis.startswith("from 1 earlier run here")


def test_runs_of_other_workspaces_count_and_are_not_named():
    finished(version(characters=598, rows=6000), sft(), step_seconds=0.31, name="secret sauce")
    forecast = forecast_of(sft(), SMALL, CPU, version=version(characters=598, rows=6000), base=None)
    assert forecast.high == pytest.approx(248, rel=0.05)
    assert "secret" not in forecast.basis


def test_a_run_whose_settings_an_earlier_release_stored_keeps_no_other_from_being_planned():
    rows = version(characters=598, rows=6000)
    run = finished(rows, sft(), step_seconds=0.31)
    run.config["optimizer"]["no_longer_a_setting"] = True
    run.save()
    assert forecast_of(sft(), SMALL, CPU, version=rows, base=None).high == pytest.approx(248, rel=0.05)


def test_a_run_that_has_not_stepped_yet_says_what_was_expected_and_why():
    run = factories.run(
        state="running",
        attempt=1,
        running_since=now() - timedelta(seconds=20),
        total_steps=800,
        expected_seconds=260,
        expected_because="from 3 earlier runs",
    )
    assert run.seconds_left == pytest.approx(240, abs=2)
    assert run.seconds_left_basis == "from 3 earlier runs"
    run.step, run.step_seconds, run.evaluations_ahead, run.evaluation_seconds = 400, 0.5, 2, 30.0
    assert run.seconds_left == pytest.approx(400 * 0.5 + 60)
    assert run.seconds_left_basis == "from this run's own pace: 0.5 s a step, 2 more evaluations of 30 s"


def test_what_a_dpo_run_makes_a_model_read_is_both_sides():
    pairs = version(characters=696, rows=228, pairs=True)
    config = {
        "kind": "dpo",
        "model": {"path": "base"},
        "data": {"train": "t"},
        "optimizer": {"batch_size": 8, "epochs": 1.0},
    }
    both = forecast_of(DpoConfig.from_json(config), SMALL, CPU, version=pairs, base=None)
    one = forecast_of(sft(max_steps=28), SMALL, CPU, version=version(characters=696, rows=228), base=None)
    assert both.high is not None
    assert one.high is not None
    # Two chats, and two more operations of eight for the reference; 28 steps and their 0.05 s besides.
    assert both.high - 28 * 0.05 == pytest.approx((one.high - 28 * 0.05) * 2 * 8 / 6, rel=0.01)


def test_the_pages_tell_the_time_of_a_run_before_and_while_it_runs_and_what_it_rests_on(client, monkeypatch):
    member = factories.member(Role.RESEARCHER)
    client.force_login(member.user)
    capacity.report()
    enqueued: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(
        "apps.training.launch.enqueue_at_once", lambda task, key, plan, **_: enqueued.append((key, plan))
    )
    rows = version(characters=598, rows=6000, of=member.workspace)
    finished(rows, sft(), step_seconds=0.31)
    chosen = {"algorithm": "sft", "version": rows.pk, "base": "", "preset": "standard", "method": "full"}
    assert "once it runs" not in client.post(reverse("training:check"), chosen).content.decode()
    [(key, plan)] = enqueued
    check_plan(key, plan)
    panel = client.post(reverse("training:check"), chosen).content.decode()
    # 375 steps of 16 rows, not of 8 as before: 0.05 s besides twice 0.26 s of arithmetic are 213.75 s.
    assert "about 3 min 34 s " in panel
    assert "once it runs, from 1 earlier run here of this algorithm, size, and kind of worker" in panel

    run = factories.run(of=member.workspace, state="running", attempt=1, total_steps=800, running_since=now())
    Run.objects.update(expected_seconds=248.0, expected_because="from 1 earlier run here")
    page = reverse("training:live", args=[run.pk])
    words = client.get(page).content.decode()
    assert "about 4 min left" in words
    assert "Time left from 1 earlier run here." in words
    apply(
        run=run,
        update=RunUpdate(seq=1, offset=1, step=100, step_seconds=1.2, evaluation_seconds=30.0, evaluations_ahead=2),
    )
    words = unescape(client.get(page).content.decode())
    assert "about 15 min left" in words  # 700 x 1.2 s and 2 x 30 s
    assert "Time left from this run's own pace: 1.2 s a step, 2 more evaluations of 30 s." in words
