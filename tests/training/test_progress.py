"""What a worker records, and that recording it twice has no further effect."""

from datetime import UTC, datetime, timedelta

import pytest

from apps.jobs import lifecycle
from apps.jobs.models import Failure
from apps.policies.models import Policy
from apps.training import progress
from apps.training.launch import RUNS
from apps.training.models import Metric, Run
from apps.training.progress import RunUpdate, TimelineEntry, TrainingStart
from tests import factories

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.fixture
def run() -> Run:
    taken = lifecycle.claim(RUNS, factories.run().pk, worker="here:1")
    assert taken is not None
    return taken


def test_news_are_stored_together(run: Run):
    news = RunUpdate(
        seq=7,
        offset=900,
        began=TrainingStart(at=NOON, step=10, total_steps=40, device="cpu"),
        step=12,
        total_steps=40,
        checkpoint_step=12,
        memory_mb=512.5,
        metrics={11: {"loss": 0.7}, 12: {"loss": 0.6}},
        timeline=[TimelineEntry(NOON, "checkpoint", "Saved a checkpoint at step 12.")],
    )
    assert progress.apply(run=run, update=news)
    run.refresh_from_db()
    assert (run.state, run.step, run.total_steps, run.checkpoint_step) == ("running", 12, 40, 12)
    assert (run.running_since, run.running_from, run.device, run.memory_mb) == (NOON, 10, "cpu", 512.5)
    assert (run.events_seq, run.events_offset) == (7, 900)
    assert list(run.metrics.order_by("step").values_list("step", "values")) == [
        (11, {"loss": 0.7}),
        (12, {"loss": 0.6}),
    ]
    assert run.events.get(kind="checkpoint").at == NOON


def test_telling_the_same_news_twice_changes_nothing(run: Run):
    news = RunUpdate(
        seq=3, offset=300, step=5, metrics={5: {"loss": 0.5}}, timeline=[TimelineEntry(NOON, "log", "Loaded.")]
    )
    assert progress.apply(run=run, update=news) is True
    assert progress.apply(run=run, update=news) is False
    assert run.events.filter(kind="log").count() == 1
    assert Metric.objects.filter(run=run).count() == 1


def test_older_news_do_not_turn_the_run_back(run: Run):
    progress.apply(run=run, update=RunUpdate(seq=9, offset=900, step=20))
    assert progress.apply(run=run, update=RunUpdate(seq=4, offset=400, step=10)) is False
    run.refresh_from_db()
    assert (run.step, run.events_offset) == (20, 900)


def test_a_resumed_run_is_at_its_checkpoint(run: Run):
    progress.apply(run=run, update=RunUpdate(seq=1, offset=100, step=14))
    began = TrainingStart(at=NOON, step=10, total_steps=40, device="cpu")
    progress.apply(run=run, update=RunUpdate(seq=2, offset=200, began=began))
    run.refresh_from_db()
    assert run.step == 10


def test_a_resumed_run_has_no_curves_beyond_its_checkpoint(run: Run):
    metrics = {step: {"loss": 1 / step} for step in (9, 10, 14)}
    progress.apply(run=run, update=RunUpdate(seq=1, offset=100, step=14, metrics=metrics))
    began = TrainingStart(at=NOON, step=10, total_steps=40, device="cpu")
    progress.apply(run=run, update=RunUpdate(seq=2, offset=200, began=began, metrics={11: {"loss": 0.1}}))
    assert list(run.metrics.order_by("step").values_list("step", flat=True)) == [9, 10, 11]


def test_a_resumed_run_of_star_keeps_the_curves_of_finished_rounds(run: Run):
    progress.apply(run=run, update=RunUpdate(seq=1, offset=100, metrics={10: {"loss": 0.5}, 14: {"loss": 0.4}}))
    playing = TrainingStart(at=NOON, step=0, total_steps=0, device="")
    progress.apply(run=run, update=RunUpdate(seq=2, offset=200, began=playing))
    assert run.metrics.count() == 2
    training = TrainingStart(at=NOON, step=10, total_steps=20, device="cpu")  # the second round
    progress.apply(run=run, update=RunUpdate(seq=3, offset=300, began=training))
    assert [metric.step for metric in run.metrics.all()] == [10]


def test_an_evaluation_adds_to_the_metrics_of_its_step(run: Run):
    progress.apply(run=run, update=RunUpdate(seq=1, offset=100, metrics={10: {"loss": 0.7, "learning_rate": 0.001}}))
    progress.apply(run=run, update=RunUpdate(seq=2, offset=200, metrics={10: {"eval/loss": 0.8, "loss": 0.65}}))
    assert Metric.objects.get(run=run, step=10).values == {"loss": 0.65, "learning_rate": 0.001, "eval/loss": 0.8}


def test_a_measurement_keeps_the_time_at_which_it_was_made(run: Run):
    progress.apply(run=run, update=RunUpdate(seq=1, offset=100, metrics={10: {"loss": 0.7}}, measured_at={10: NOON}))
    assert Metric.objects.get(run=run, step=10).at == NOON
    later = NOON + timedelta(hours=1)  # resumed from before the step
    progress.apply(run=run, update=RunUpdate(seq=2, offset=200, metrics={10: {"loss": 0.6}}, measured_at={10: later}))
    assert Metric.objects.get(run=run, step=10).at == later


def test_a_run_that_is_being_cancelled_stays_so_when_training_begins(run: Run):
    Run.objects.filter(pk=run.pk).update(state=Run.State.CANCELLING)
    progress.apply(
        run=run, update=RunUpdate(seq=1, offset=1, began=TrainingStart(at=NOON, step=0, total_steps=4, device="cpu"))
    )
    run.refresh_from_db()
    assert run.state == Run.State.CANCELLING


def test_a_finished_run_becomes_a_policy_with_its_descent(run: Run):
    progress.finish(run=run, report={"eval/loss": 0.41})
    run.refresh_from_db()
    made = run.result
    assert made is not None
    assert (made.name, made.kind, made.base, made.location) == (
        run.name,
        "model",
        run.base,
        "",
    )  # found through its run
    assert made.report == {"eval/loss": 0.41}
    assert (run.state, run.leased_until) == ("finished", None)


def test_a_reward_model_is_no_policy_that_acts():
    run = lifecycle.claim(RUNS, factories.run(algorithm=Run.Algorithm.REWARD_MODEL).pk, worker="here:1")
    assert run is not None
    progress.finish(run=run, report={})
    run.refresh_from_db()
    assert run.result is not None
    assert run.result.kind == Policy.Kind.REWARD_MODEL


def test_a_second_run_of_one_name_makes_a_policy_with_a_number(run: Run):
    factories.policy(of=run.workspace, name=run.name)
    factories.policy(of=run.workspace, name=f"{run.name} (2)")
    progress.finish(run=run, report={})
    run.refresh_from_db()
    assert run.result is not None
    assert run.result.name == f"{run.name} (3)"


def test_a_failure_keeps_what_a_person_needs(run: Run):
    failure = Failure("data", "Row 3 is no JSON.", "Correct row 3.", log=["…"], command="python -m trainer run.json")
    lifecycle.fail(run, failure)
    run.refresh_from_db()
    assert run.state == Run.State.FAILED
    assert run.failure == {
        "category": "data",
        "message": "Row 3 is no JSON.",
        "advice": "Correct row 3.",
        "details": "",
        "log": ["…"],
        "command": "python -m trainer run.json",
    }
    assert run.events.get(kind="failed").text == "Row 3 is no JSON."
