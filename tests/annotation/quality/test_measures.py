"""The figures of the quality pages, computed from judgments."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from apps.annotation.desk.actions import record
from apps.annotation.desk.assignments import next_assignment
from apps.annotation.kinds.answers import InspectionAnswer, Label
from apps.annotation.kinds.measures import Gathered, Measure, UnitValue, Work
from apps.annotation.models import Queue
from apps.annotation.quality.measures import between_people, count_sessions, measure, over_time, people, with_others
from apps.annotation.quality.presentation import concerns, measure_rows
from apps.annotation.quality.reports import gather
from apps.annotation.queues.queue_lifecycle import create_queue_of_trajectories
from tests import factories
from tests.annotation import builders

ANN, BEA, CAI = (UUID(int=n) for n in range(1, 4))
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def better(*votes: tuple[UUID, int, int]) -> Measure:
    """A side measure from (annotator, item, strength)."""
    answers = [UnitValue(annotator, item, item, strength) for annotator, item, strength in votes]
    return Measure("better", "Which trajectory is better", range(-3, 4), sides=True, answers=answers)


def work(who: UUID, item: int, *, seconds: float | None = 30.0, left: bool | None = None, minutes: float = 0.0) -> Work:
    return Work(who, item, NOON + timedelta(minutes=minutes), seconds, left)


def test_one_is_compared_with_what_most_of_the_others_say():
    consensus = with_others(
        better(
            *((ANN, 1, 3), (BEA, 1, 1), (CAI, 1, -2)),  # Ann and Bea are for a; Cai is against what they say
            *((ANN, 2, 1), (BEA, 2, -1)),  # each differs from the only other judgment
            (ANN, 3, 2),  # nobody else
        )
    )
    # On item 1, Ann's others (Bea, Cai) disagree, and so do Bea's; both of Cai's others contradict Cai.
    assert consensus == {ANN: (0, 1, 1), BEA: (0, 1, 1), CAI: (0, 1, 1)}


def test_habits_and_haste_are_measured_with_intervals():
    busy = [work(ANN, n, left=True, seconds=4.0) for n in range(20)]
    calm = [work(BEA, n, left=n % 2 == 0) for n in range(20)]
    figures = people(None, [*busy, *calm], typical=30.0)
    ann, bea = figures[str(ANN)], figures[str(BEA)]
    assert (ann["left"]["count"], ann["left"]["of"], ann["fast"]["count"]) == (20, 20, 20)
    assert ann["left"]["p"] == pytest.approx(2 * 0.5**20, rel=0.05)
    assert bea["left"]["value"] == 0.5
    assert bea["left"]["low"] == pytest.approx(0.299, abs=1e-3)  # Wilson: 10 of 20
    assert (ann["median_seconds"], ann["per_hour"]) == (4.0, 900.0)
    assert concerns(ann) == ["favors the left side", "very fast"]
    assert concerns(bea) == []


def test_what_machines_take_says_nothing_of_haste():
    machine = [work(CAI, n, seconds=None) for n in range(60)]
    calm = [work(BEA, n) for n in range(20)]
    busy = [work(ANN, n, seconds=4.0) for n in range(19)]
    figures = measure(Gathered([], [*machine, *calm, *busy]))
    assert figures["median_seconds"] == 30.0  # of 39, the 20th
    ann, cai = (figures["annotators"][str(who)] for who in (ANN, CAI))
    assert (ann["fast"]["count"], concerns(ann)) == (19, ["very fast"])
    assert (cai["judged"], cai["median_seconds"], cai["seconds"], cai["fast"]["of"]) == (60, None, None, 0)
    assert concerns(cai) == []


@pytest.mark.django_db
def test_only_people_take_time():
    queue = factories.queue(overlap=2)
    item = factories.item(of=queue)
    factories.preference(1, on=item, seconds=9.0)
    factories.preference(1, on=item, by=builders.rule(of=queue.workspace), seconds=0.0)
    assert [work.seconds for work in gather(queue).work] == [9.0, None]


def test_little_work_is_held_against_nobody():
    figures = people(None, [work(ANN, n, left=True, seconds=1.0) for n in range(9)], typical=30.0)
    assert concerns(figures[str(ANN)]) == []


def test_a_long_pause_begins_another_sitting():
    assert count_sessions([NOON, NOON + timedelta(minutes=29), NOON + timedelta(minutes=60)]) == 2
    assert count_sessions([]) == 0


def test_agreement_over_time_is_in_the_order_in_which_items_were_finished():
    values, done = [], []
    for item in range(60):  # full agreement on the first 30 items by date, then on every second one
        agreed = item < 30 or item % 2
        values += [
            (ANN, item, 2 if item % 3 else -2),
            (BEA, item, (2 if item % 3 else -2) if agreed else (-2 if item % 3 else 2)),
        ]
        done += [work(ANN, item, minutes=item), work(BEA, item, minutes=200 + item)]
    first, *_, last = over_time(better(*values), done)
    assert first["through"] == 20
    assert first["alpha"]["value"] == 1.0
    assert last["through"] == 60
    assert last["alpha"]["value"] < 0.3
    assert last["until"] == "2026-03-02T16:19+00:00"  # noon and 259 minutes


def test_everything_is_json_and_says_why_it_is_undefined():
    import json

    figures = measure(Gathered([better((ANN, 1, 2))], [work(ANN, 1)]))
    assert (
        json.loads(json.dumps(figures))["measures"][0]["nominal"]["undefined_because"]
        == "no item has two judgments yet"
    )
    assert measure(Gathered([], []))["judgments"] == 0


@pytest.mark.django_db
def test_aspects_are_measured_by_themselves():
    queue = factories.queue(overlap=2, asks={"questions": [{"key": "safety", "name": "Safety", "type": "comparison"}]})
    for item in [factories.item(of=queue) for _ in range(3)]:
        for strength, safety in ((2, 2), (-1, 2)):
            factories.preference(strength, on=item, aspects={"safety": safety, "unknown": 9})
    gathered = gather(Queue.objects.get(pk=queue.pk))
    better_, safety = gathered.measures
    assert [answer.value for answer in better_.answers] == [2, -1] * 3
    assert (safety.name, [answer.value for answer in safety.answers]) == ("Safety", [2] * 6)
    assert [work.chose_left for work in gathered.work] == [True, False] * 3


@pytest.mark.django_db
def test_what_was_taken_back_is_not_measured():
    judged = factories.preference(2)
    factories.preference(1, on=judged.item, retracted_at=NOON)
    assert len(gather(judged.queue).work) == 1


@pytest.mark.django_db
def test_steps_are_compared_step_by_step():
    home = factories.workspace()
    run = builders.attempt(factories.task(of=home), steps=3)
    queue = create_queue_of_trajectories(
        kind=Queue.Kind.STEPS, trajectories=[run], workspace=home, created_by=None, name="Steps", overlap=2
    )
    for values in ((1, 1, 0), (1, -1, 0)):
        assignment = next_assignment(queue=queue, annotator=builders.rule(of=home))
        walk = InspectionAnswer("solved", None, tuple(Label(index, value) for index, value in enumerate(values)))
        record(assignment=assignment, answer=walk)
    figures = measure(gather(queue))
    assert [measure["key"] for measure in figures["measures"]] == ["ending", "steps"]
    ending, steps = figures["measures"]
    assert ending["raw"]["value"] == 1.0
    assert "ordinal" not in ending  # ways of ending have no order
    assert steps["raw"]["value"] == pytest.approx(2 / 3, abs=1e-4)


def test_steps_are_called_steps_and_two_values_need_no_order():
    answers = [UnitValue(who, 1, (1, step), 1) for step in range(3) for who in (ANN, BEA)]
    by_step, of_items = measure_rows(
        measure(Gathered([Measure("label", "Label", (-1, 1), answers=answers), better((ANN, 1, 2), (BEA, 1, 2))]))
    )
    assert (by_step.unit, by_step.units, of_items.unit) == ("step", 3, "item")
    assert by_step.figures[2]["undefined_because"] == "with two values it equals α nominal"


@pytest.mark.django_db
def test_what_only_follows_after_a_first_error_is_not_compared():
    queue = builders.queue_of_trajectories(Queue.Kind.STEPS, overlap=2, steps=6)
    for error in (1, 3):
        labels = [Label(n, 1 if n < error else -1, is_filled=n != error) for n in range(6)]
        assignment = next_assignment(queue=queue, annotator=builders.rule(of=queue.workspace))
        record(assignment=assignment, answer=InspectionAnswer("found_error", error, tuple(labels)))
    _, steps = gather(queue).measures
    values = [(answer.unit[1], answer.value) for answer in steps.answers]
    assert values == [
        (0, 1),
        (1, -1),
        (0, 1),
        (1, 1),
        (2, 1),
        (3, -1),
    ]  # the second error lies beyond what the first one saw
    assert measure(gather(queue))["measures"][1]["raw"]["value"] == 0.5  # of two steps that both labeled


def test_agreement_is_of_people_and_once_more_with_machines():
    alike = better(
        *((ANN, n, 2 if n % 2 else -2) for n in range(12)), *((BEA, n, 2 if n % 2 else -2) for n in range(12))
    )
    machine = [UnitValue(CAI, n, n, -2 if n % 2 else 2) for n in range(12)]  # always the other run
    gathered = Gathered([replace(alike, answers=[*alike.answers, *machine])], [], machines=frozenset({CAI}))
    of_people, of_all = measure(gathered)["measures"]
    assert (of_people["among"], of_people["raw"]["value"], of_people["raw"]["judgments"]) == ("people", 1.0, 24)
    assert (of_all["among"], of_all["raw"]["value"], of_all["raw"]["judgments"]) == ("all", 0.3333, 36)
    assert of_people["nominal"]["value"] == 1.0


def test_one_person_and_a_machine_do_not_agree_among_people():
    measured = better((ANN, 1, 2), (CAI, 1, 2), (ANN, 2, -2), (CAI, 2, -2))
    of_people, of_all = measure(Gathered([measured], [], machines=frozenset({CAI})))["measures"]
    assert of_people["nominal"]["undefined_because"] == "no item has two judgments yet"
    assert of_all["nominal"]["value"] == 1.0


def test_where_only_machines_judged_their_agreement_is_all_there_is():
    measured = better((CAI, 1, 2), (BEA, 1, 2))
    [row] = measure(Gathered([measured], [], machines=frozenset({BEA, CAI})))["measures"]
    assert row["among"] == "all"
    assert with_others(measured, machines={BEA, CAI}) == {BEA: (1, 1, 1), CAI: (1, 1, 1)}


def test_machines_are_compared_with_people_and_are_nobodys_measure():
    measured = better(*((ANN, 1, 3), (BEA, 1, 2), (CAI, 1, -2)), *((ANN, 2, 3), (CAI, 2, -1)))
    # Of item 2, Ann has no other person to be compared with; Cai has Ann.
    assert with_others(measured, machines={CAI}) == {ANN: (1, 1, 1), BEA: (1, 1, 1), CAI: (0, 2, 2)}


@pytest.mark.django_db
def test_who_is_a_machine_is_known():
    queue = builders.queue(overlap=2, steps=0)
    machine, person = builders.rule(of=queue.workspace), factories.annotator(of=queue.workspace)
    for who in (machine, person):
        builders.judge(queue, who, 1)
    assert gather(queue).machines == {machine.pk}


def test_the_steps_of_a_trajectory_are_not_so_many_independent_answers():
    """Of twelve trajectories with thirty steps each, Bea contradicts Ann throughout four."""
    answers = [
        UnitValue(who, item, (item, step), 1 if who == ANN or item >= 4 else -1)
        for item in range(12)
        for step in range(30)
        for who in (ANN, BEA)
    ]
    answers = [entry._replace(value=entry.value if entry.unit[1] % 2 else -entry.value) for entry in answers]
    measured = Measure("label", "Label", (-1, 0, 1), sides=False, answers=answers)
    bea = people(measured, [work(BEA, item) for item in range(12)], typical=30.0)[str(BEA)]
    assert (bea["consensus"]["count"], bea["consensus"]["of"], bea["consensus"]["value"]) == (240, 360, 0.6667)
    assert (bea["consensus"]["low"], bea["consensus"]["high"]) == (0.3906, 0.8619)  # Wilson: 8 of 12
    assert concerns(bea) == []
    (cell,) = between_people(measured)["cells"]
    assert (cell["same"]["low"], cell["same"]["of"]) == (0.3906, 360)
    assert cell["kappa"]["high"] - cell["kappa"]["low"] > 0.8  # 0.2 if steps were independent
    (period,) = over_time(measured, [work(who, item, minutes=item) for item in range(12) for who in (ANN, BEA)])
    assert period["alpha"]["high"] - period["alpha"]["low"] > 0.8
