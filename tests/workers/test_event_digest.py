"""Digests the trainer's events into updates for the database."""

from datetime import UTC, datetime

from apps.training.progress import RunUpdate, TimelineEntry, TrainingStart
from contract.events import (
    AlarmRaised,
    CheckpointSaved,
    Event,
    Heartbeat,
    Log,
    Metrics,
    Progress,
    StampedEvent,
    Started,
    Tracked,
    Warned,
)
from workers.bridge.event_digest import digest

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def digested(*events: Event, first: int = 1) -> list[StampedEvent]:
    return [StampedEvent(seq, NOON.timestamp(), event) for seq, event in enumerate(events, first)]


def test_many_events_become_one_piece_of_news():
    events = digested(
        Log("Loading the model"),
        Started(total_steps=40, step=0, trainable_parameters=5, total_parameters=1000, memory_mb=300.0, device="cpu"),
        Metrics(1, {"loss": 0.7}),
        Progress(1, 40),
        Metrics(2, {"loss": 0.6}),
        Metrics(2, {"eval/loss": 0.8}),
        Progress(2, 40),
        CheckpointSaved(2, "checkpoints/2"),
        Heartbeat(412.0),
        AlarmRaised(2, "dead_groups", "Dead groups.", "Look.", "resample", 2),
        AlarmRaised(2, "echo_trap", "Echo Trap.", "Look."),
        Warned("2 rows are longer than max_length.", "Raise max_length."),
    )
    assert digest(events, after=0, offset=1234) == RunUpdate(
        seq=12,
        offset=1234,
        began=TrainingStart(at=NOON, step=0, total_steps=40, device="cpu", parameters=1000),
        step=2,
        total_steps=40,
        checkpoint_step=2,
        memory_mb=412.0,
        metrics={1: {"loss": 0.7}, 2: {"loss": 0.6, "eval/loss": 0.8}},
        measured_at={1: NOON, 2: NOON},
        timeline=[
            TimelineEntry(NOON, "log", "Loading the model"),
            TimelineEntry(NOON, "started", "Training begins on cpu: 0.50% of 1,000 parameters are trained."),
            TimelineEntry(NOON, "checkpoint", "Saved a checkpoint at step 2."),
            TimelineEntry(
                NOON,
                "alarm",
                "At step 2. Dead groups. Look.",
                {"name": "dead_groups", "step": 2, "setting": "resample", "value": 2},
            ),
            TimelineEntry(NOON, "alarm", "At step 2. Echo Trap. Look.", {"name": "echo_trap", "step": 2}),
            TimelineEntry(NOON, "warning", "2 rows are longer than max_length. Raise max_length."),
        ],
    )


def test_events_that_are_stored_already_are_left_out():
    news = digest(digested(Progress(1, 4), Progress(2, 4), first=5), after=5, offset=99)
    assert news == RunUpdate(seq=6, offset=99, step=2, total_steps=4)
    assert digest(digested(Progress(1, 4), first=5), after=5, offset=99) is None


def test_a_resumed_run_says_where_it_goes_on():
    [happening] = digest(digested(Started(total_steps=40, step=12, device="cuda:0")), after=0, offset=1).timeline
    assert happening.text == "Training continues from step 12 on cuda:0."


def test_what_was_measured_after_the_checkpoint_of_a_resumed_run_is_left_out():
    events = [Metrics(12, {"loss": 0.5}), Metrics(14, {"loss": 0.4}), Started(total_steps=40, step=12, device="cpu")]
    news = digest(digested(*events, Metrics(13, {"loss": 0.3})), after=0, offset=1)
    assert news is not None
    assert news.metrics == {12: {"loss": 0.5}, 13: {"loss": 0.3}}
    assert list(news.measured_at) == [12, 13]


def test_rollouts_that_star_plays_first_are_no_step_back():
    events = [Metrics(12, {"loss": 0.5}), Started(total_steps=0), Started(total_steps=40, step=12, device="cpu")]
    news = digest(digested(*events), after=0, offset=1)
    assert news is not None
    assert news.metrics == {12: {"loss": 0.5}}


def test_where_else_the_curves_are_is_a_line_of_the_timeline():
    news = digest(digested(Tracked("MLflow", "https://mlflow.example.org/#/runs/7")), after=0, offset=9)
    assert news is not None
    link = {"url": "https://mlflow.example.org/#/runs/7"}
    assert news.timeline == [TimelineEntry(NOON, "tracked", "The curves are on MLflow, too.", link)]
