"""The pace of runs, compared with measurements of real ones on two CPU cores."""

import pytest

from contract.events import CheckpointSaved, Metrics, Progress, StampedEvent, Started
from workers.bridge.stopwatch import Stopwatch, remaining_evaluations

GRPO = (
    "E0 18.3, 1 56.8, 2 84.1, 3 112.3, 4 170.9, 5 199.5, E5 225.3, 6 299.8, 7 371.3, 8 405.7, 9 435.5, 10 492.9, E10 520.0, 11 551.1, 12 600.0, "
    "13 632.2, 14 670.7, 15 738.7, E15 767.0, 16 814.8, 17 868.0, 18 938.3, 19 973.1, 20 1028.1, E20 1049.3"
)
"""GRPO from a small model, evaluated every five steps: seconds since the start; E is the end of the evaluation after that step."""
SFT = (
    "40 13.1, 80 27.7, 120 40.3, 160 52.8, 200 65.2, 240 77.3, 280 90.1, 320 103.1, 360 116.2, 400 128.7, 440 141.0, 480 153.2, 520 166.0, 560 178.8, "
    "600 190.7, 640 203.1, 680 215.4, 720 227.1, 760 239.7, 800 251.7"
)
"""800 steps of the demo's first model, at every fortieth step."""


def events(recorded: str) -> list[StampedEvent]:
    stamped_events: list[StampedEvent] = [StampedEvent(1, 0.0, Started(total_steps=0))]
    for entry in recorded.split(", "):
        name, at = entry.split()
        step = int(name.removeprefix("E"))
        event = Metrics(step, {"eval/success": 0.5}) if name.startswith("E") else Progress(step, 0)
        stamped_events.append(StampedEvent(len(stamped_events) + 1, float(at), event))
    return stamped_events


def left_at(step: int, recorded: str, *, total: int, every: int | None) -> tuple[float, float]:
    """The estimated and the actual remaining time after a step."""
    stamped_events = events(recorded)
    place = next(i for i, stamped in enumerate(stamped_events) if stamped.event == Progress(step, 0))
    if isinstance(stamped_events[place + 1].event, Metrics):
        place += 1  # its evaluation is over
    measured = Stopwatch().update(stamped_events[: place + 1])
    ahead = 0 if every is None else remaining_evaluations(every, step=step, total=total)
    assert measured.step is not None
    thought = measured.step * (total - step) + ahead * (measured.evaluation or 0.0)
    return thought, stamped_events[-1].at - stamped_events[place].at


@pytest.mark.parametrize("step", [5, 8, 10, 15])
def test_what_is_left_of_a_run_that_evaluates_is_right_within_thirty_percent(step: int):
    thought, really = left_at(step, GRPO, total=20, every=5)
    assert thought == pytest.approx(really, rel=0.3)


@pytest.mark.parametrize("step", [40, 80, 400, 720])
def test_what_is_left_of_a_steady_run_is_right_within_fifteen_percent(step: int):
    thought, really = left_at(step, SFT, total=800, every=None)
    assert thought == pytest.approx(really, rel=0.15)


def test_evaluations_are_no_part_of_a_step():
    recorded_events = [
        Started(total_steps=20),
        Metrics(0, {"eval/loss": 2.0}),
        Progress(1, 20),
        Metrics(1, {"loss": 2.0}),
        Progress(2, 20),
        Metrics(2, {"loss": 1.9}),
        Metrics(2, {"eval/loss": 1.9}),
        CheckpointSaved(2, "checkpoints/checkpoint-2"),
        Progress(3, 20),
    ]
    at = (0.0, 60.0, 61.0, 61.0, 62.0, 62.0, 112.0, 114.0, 115.0)
    stamped = [StampedEvent(seq, *fields) for seq, fields in enumerate(zip(at, recorded_events, strict=True), start=1)]
    measured = Stopwatch().update(stamped)
    assert measured.evaluation == pytest.approx((60 + 50) / 2)
    assert measured.step == pytest.approx((1 + 1 + 3) / 3)  # the third saved a checkpoint, too


def test_nothing_of_an_earlier_attempt_counts():
    watch = Stopwatch()
    watch.update([StampedEvent(1, 0.0, Started(total_steps=9)), StampedEvent(2, 50.0, Progress(1, 9))])
    again = [StampedEvent(3, 900.0, Started(total_steps=9, step=1)), StampedEvent(4, 902.0, Progress(2, 9))]
    assert watch.update(again) == (2.0, None)


@pytest.mark.parametrize(
    ("every", "step", "total", "ahead"),
    [(0, 0, 800, 10), (0, 80, 800, 9), (5, 0, 20, 4), (5, 5, 20, 3), (5, 19, 20, 1), (5, 20, 20, 0), (100, 0, 57, 1)],
)
def test_evaluations_that_are_to_come(every: int, step: int, total: int, ahead: int):
    assert remaining_evaluations(every, step=step, total=total) == ahead
