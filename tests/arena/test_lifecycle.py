"""An experiment from its plan to its verdict, in the database."""

from contextlib import closing
from threading import Thread

import pytest
from django.db import connection

from apps.accounts.models import AuditEntry, Role
from apps.annotation.desk.actions import record, undo_last
from apps.annotation.desk.assignments import next_assignment
from apps.annotation.kinds.answers import Choice
from apps.annotation.kinds.pair_selection import shuffled_place
from apps.annotation.models import Annotator, Item, Preference, Queue
from apps.annotation.refusals import NothingToUndo
from apps.arena import lifecycle
from apps.arena.lifecycle import NotRunning, advance, resume_failed, start_experiment, stop_experiment
from apps.arena.models import Experiment
from apps.arena.queries import Standing, current_standing
from apps.arena.stopping_rule import Outcome, StoppingRule
from apps.arena.win_rates import confidence_sequence
from apps.jobs.models import JobState
from apps.trajectories.models import RolloutBatch
from tests import factories
from workers.tasks import advance_experiments

pytestmark = pytest.mark.django_db


@pytest.fixture
def researcher():
    return factories.member(Role.RESEARCHER)


def begin(researcher, *, tasks=12, overlap=1, min_tasks=10) -> Experiment:
    return start_experiment(
        workspace=researcher.workspace,
        name="champion or challenger",
        environment="office",
        policy_a=factories.policy(of=researcher.workspace, name="champion"),
        policy_b=factories.policy(of=researcher.workspace, name="challenger"),
        tasks=tasks,
        levels=[],
        samples=1,
        overlap=overlap,
        rule=StoppingRule(min_tasks=min_tasks),
        seed=5,
        by=researcher.user,
    )


def runs_arrive(experiment: Experiment, *, success=(True, False), alike=0) -> None:
    """Both policies finish: each planned task has one run per side; in the first `alike` tasks the two are indistinguishable."""
    batches = [experiment.rollouts_a, experiment.rollouts_b]
    for number in range(experiment.plan["tasks"]):
        task = factories.task(of=experiment.workspace, environment="office", held_out=True)
        for batch, succeeded in zip(batches, success, strict=True):
            factories.trajectory(
                of=task,
                policy=batch.policy,
                rollout_batch=batch,
                success=succeeded,
                course=number if number < alike else None,
            )
    RolloutBatch.objects.filter(pk__in=[batch.pk for batch in batches]).update(state=JobState.DONE)


def judge(experiment: Experiment, strength: int, *, how_many: int) -> None:
    annotator = factories.annotator(of=experiment.workspace)
    queue = Queue.objects.get(pk=experiment.queue_id)
    for _ in range(how_many):
        record(assignment=next_assignment(queue=queue, annotator=annotator), answer=Choice(strength))


def test_both_policies_get_the_same_held_out_tasks(researcher):
    experiment = begin(researcher)
    a, b = experiment.rollouts_a, experiment.rollouts_b
    assert a.policy.name == "champion"
    assert a.config["tasks"] == b.config["tasks"] == {"split": "held_out", "count": 12, "levels": [], "seed": 5}


def test_the_queue_waits_for_both_sides(researcher):
    experiment = begin(researcher)
    RolloutBatch.objects.filter(pk=experiment.rollouts_a_id).update(state=JobState.DONE)
    advance(experiment)
    experiment.refresh_from_db()
    assert (experiment.state, experiment.queue) == ("rolling_out", None)


def test_finished_rollouts_become_one_blind_queue_however_often_it_is_asked(researcher):
    experiment = begin(researcher, overlap=2)
    runs_arrive(experiment)
    advance(experiment)
    advance(experiment)  # two workers, one queue
    experiment.refresh_from_db()
    assert experiment.state == "labeling"
    assert Queue.objects.visible_to(researcher).count() == 1
    assert not {"champion", "challenger"} & set(experiment.queue.name.split())
    items = Item.objects.filter(queue=experiment.queue).select_related("a__policy", "b__policy")
    assert [(item.a.policy.name, item.b.policy.name, item.overlap) for item in items] == [
        ("champion", "challenger", 2)
    ] * 12


def test_pairs_are_judged_in_an_order_that_says_nothing_about_their_tasks(researcher):
    """By name, all easy tasks would come first, and the rule would end an experiment between policies that are equal overall."""
    experiment = begin(researcher, tasks=0)
    levels = ["L1", "L2", "L3"]
    for number in range(60):
        key = f"office/{levels[number % 3]}/held_out/{number}"
        task = factories.task(of=experiment.workspace, key=key, difficulty=levels[number % 3])
        for batch in (experiment.rollouts_a, experiment.rollouts_b):
            for sample in range(2):
                factories.trajectory(of=task, rollout_batch=batch, external_id=f"{batch.policy.name}:{key}#{sample}")
    runs_arrive(experiment)
    advance(experiment)
    items = list(Item.objects.order_by("position").select_related("task", "a", "b"))
    first_tasks = list(dict.fromkeys(item.task for item in items))[:20]
    assert {task.difficulty for task in first_tasks} == {*levels}
    assert all(item.a.external_id.split(":")[1] == item.b.external_id.split(":")[1] for item in items)
    assert all(one.task == other.task for one, other in zip(items[::2], items[1::2], strict=True))


def test_failed_rollouts_end_it_with_their_reason(researcher):
    experiment = begin(researcher)
    RolloutBatch.objects.filter(pk=experiment.rollouts_a_id).update(state=JobState.DONE)
    RolloutBatch.objects.filter(pk=experiment.rollouts_b_id).update(
        state=JobState.FAILED, failure={"message": "out of memory"}
    )
    advance(experiment)
    experiment.refresh_from_db()
    assert experiment.state == "failed"
    assert experiment.error == "Rollouts did not finish: challenger failed (out of memory)"


def test_resumed_rollouts_let_it_go_on(researcher):
    experiment = begin(researcher)
    batches = RolloutBatch.objects.filter(pk__in=[experiment.rollouts_a_id, experiment.rollouts_b_id])
    batches.update(state=JobState.CANCELLED)
    advance_experiments()
    RolloutBatch.objects.filter(pk=experiment.rollouts_a_id).update(state=JobState.WAITING)
    advance_experiments()
    experiment.refresh_from_db()
    assert experiment.state == "failed"  # the other side is still cancelled
    batches.update(state=JobState.RUNNING)
    advance_experiments()
    experiment.refresh_from_db()
    assert (experiment.state, experiment.error) == ("rolling_out", "")
    runs_arrive(experiment)
    advance_experiments()
    experiment.refresh_from_db()
    assert (experiment.state, experiment.queue.item_count) == ("labeling", 12)


def test_many_experiments_of_a_workspace_leave_time_to_others(researcher, monkeypatch):
    first = begin(researcher)
    facts = {name: getattr(first, name) for name in ("workspace", "environment", "policy_a", "policy_b", "plan")}
    many = [first, *(Experiment.objects.create(**facts, name=name) for name in ("second", "third"))]
    other = begin(factories.member(Role.RESEARCHER))
    monkeypatch.setattr(lifecycle, "TURN_SECONDS", 0)
    advanced = []
    monkeypatch.setattr(lifecycle, "advance", advanced.append)
    for _ in many:
        advance_experiments()
    assert advanced == [many[0], other, many[1], other, many[2], other]


@pytest.mark.django_db(transaction=True)
def test_one_worker_at_a_time_advances_experiments(researcher, monkeypatch):
    begin(researcher)
    advanced = []

    def advance_again(experiment: Experiment) -> None:
        advanced.append(experiment)
        thread = Thread(target=lambda: (advance_experiments(), connection.close()))
        thread.start()
        thread.join()

    monkeypatch.setattr(lifecycle, "advance", advance_again)
    advance_experiments()
    assert len(advanced) == 1


def test_an_experiment_with_nothing_to_compare_stays_ended(researcher):
    experiment = begin(researcher)
    batches = RolloutBatch.objects.filter(pk__in=[experiment.rollouts_a_id, experiment.rollouts_b_id])
    batches.update(state=JobState.DONE)
    advance_experiments()
    assert resume_failed() == 0
    experiment.refresh_from_db()
    assert (experiment.state, "nothing to compare" in experiment.error) == ("failed", True)


def test_a_clear_winner_ends_it_by_the_rule_and_closes_the_queue(researcher):
    experiment = begin(researcher)
    runs_arrive(experiment)
    advance(experiment)
    experiment.refresh_from_db()
    judge(experiment, 2, how_many=9)
    advance(experiment)
    experiment.refresh_from_db()
    assert experiment.state == "labeling"  # nine tasks are fewer than the rule requires
    judge(experiment, 1, how_many=1)
    advance(experiment)
    experiment.refresh_from_db()
    assert experiment.state == "stopped"
    assert experiment.verdict["outcome"] == "a_better"
    assert experiment.verdict["stopped_by_rule"] is True
    assert experiment.verdict["tally"] == {"wins": 10, "ties": 0, "losses": 0, "both_bad": 0}
    assert Queue.objects.get(pk=experiment.queue_id).state == Queue.State.CLOSED


def test_a_judgment_that_is_undone_before_the_end_is_in_no_verdict(researcher, monkeypatch):
    experiment = begin(researcher)
    runs_arrive(experiment)
    advance(experiment)
    experiment.refresh_from_db()
    judge(experiment, 2, how_many=10)
    annotator = Annotator.objects.get()

    def undone_after(experiment: Experiment) -> Standing:
        monkeypatch.setattr(lifecycle, "current_standing", current_standing)
        figures = current_standing(experiment)
        undo_last(queue=experiment.queue, annotator=annotator)
        return figures

    monkeypatch.setattr(lifecycle, "current_standing", undone_after)
    advance(experiment)
    experiment.refresh_from_db()
    assert (experiment.state, experiment.verdict) == ("labeling", {})


@pytest.mark.django_db(transaction=True)
def test_while_a_verdict_is_reached_nothing_is_undone(researcher, monkeypatch):
    experiment = begin(researcher)
    runs_arrive(experiment)
    advance(experiment)
    experiment.refresh_from_db()
    judge(experiment, 2, how_many=10)
    annotator, refused = Annotator.objects.get(), []

    def undo() -> None:
        with closing(connection):
            try:
                undo_last(queue=experiment.queue, annotator=annotator)
            except NothingToUndo as refusal:
                refused.append(str(refusal))

    undoing = Thread(target=undo)

    def begun_before_the_end(experiment: Experiment) -> Standing:
        if connection.in_atomic_block:
            undoing.start()
            undoing.join(0.5)
        return current_standing(experiment)

    monkeypatch.setattr(lifecycle, "current_standing", begun_before_the_end)
    advance(experiment)
    undoing.join()
    experiment.refresh_from_db()
    assert experiment.verdict["tally"]["wins"] == 10 == Preference.objects.valid().count()
    assert "This experiment has ended" in refused[0]


def test_a_task_counts_only_when_all_its_judgments_are_in(researcher):
    experiment = begin(researcher, overlap=2)
    runs_arrive(experiment)
    advance(experiment)
    experiment.refresh_from_db()
    judge(experiment, 3, how_many=5)
    assert current_standing(experiment).win_rate.n == 0
    judge(experiment, -3, how_many=2)
    figures = current_standing(experiment)
    assert (figures.win_rate.n, figures.win_rate.estimate) == (2, 0.5)
    assert (figures.tally.wins, figures.tally.losses, figures.items_judged) == (5, 2, 2)


def test_known_items_keep_no_task_open_and_count_for_nothing(researcher):
    experiment = begin(researcher, tasks=3)
    runs_arrive(experiment)
    advance(experiment)
    experiment.refresh_from_db()
    judge(experiment, 2, how_many=3)
    last = Item.objects.order_by("position").last()
    Item.objects.filter(pk=last.pk).update(purpose="gold", known={"answer": 1}, overlap=99)
    figures = current_standing(experiment)
    assert (figures.tally.wins, figures.items, figures.items_judged, figures.tasks_planned) == (2, 2, 2, 2)
    assert (figures.win_rate.n, figures.side_bias.decided) == (2, 2)


def test_nobody_is_asked_about_runs_that_cannot_be_told_apart(researcher):
    experiment = begin(researcher)
    runs_arrive(experiment, alike=4)
    advance(experiment)
    experiment.refresh_from_db()
    assert Item.objects.filter(queue=experiment.queue).count() == 8
    assert current_standing(experiment).win_rate.n == 0
    judge(experiment, 2, how_many=1)
    figures = current_standing(experiment)
    ties = sum(place == 0 for _, place in experiment.alike)  # those before the first judged pair
    assert (figures.tasks_planned, figures.items, figures.alike) == (12, 8, 4)
    assert (figures.win_rate.n, figures.win_rate.estimate) == (ties + 1, (ties * 0.5 + 1) / (ties + 1))
    assert (figures.tally.wins, figures.tally.ties) == (1, 0)


def test_policies_that_do_the_same_everywhere_end_it_without_a_question(researcher):
    experiment = begin(researcher)
    runs_arrive(experiment, alike=12)
    for _ in range(3):  # as the periodic task does
        experiment.refresh_from_db()
        advance(experiment)
    experiment.refresh_from_db()
    assert (experiment.state, experiment.queue) == ("stopped", None)
    assert (experiment.verdict["outcome"], experiment.verdict["alike"]) == ("no_difference_shown", 12)


def test_an_experiment_that_breaks_keeps_no_other_from_going_on(researcher, monkeypatch):
    broken, other = begin(researcher), begin(factories.member(Role.RESEARCHER))
    for experiment in (broken, other):
        runs_arrive(experiment)

    def breaks_on_one(experiment: Experiment) -> None:
        if experiment == broken:
            raise ZeroDivisionError
        advance(experiment)

    monkeypatch.setattr(lifecycle, "advance", breaks_on_one)
    advance_experiments()
    other.refresh_from_db()
    assert other.state == "labeling"


def test_tasks_that_one_of_the_two_did_not_finish_are_in_nobodys_success(researcher):
    experiment = begin(researcher)
    runs_arrive(experiment, success=(True, False))
    extra = factories.task(of=researcher.workspace)
    factories.trajectory(of=extra, policy=experiment.policy_b, rollout_batch=experiment.rollouts_b, success=True)
    figures = current_standing(experiment)
    assert (figures.success_a.runs, figures.success_b.runs, figures.success_difference.n) == (12, 12, 12)
    assert figures.success_b.succeeded == 0


def test_an_interval_of_success_follows_neither_the_end_of_trajectories_nor_the_levels_of_tasks(researcher):
    experiment = begin(researcher, tasks=0)
    tasks = [factories.task(of=researcher.workspace) for _ in range(20)]
    for success, some in ((True, tasks[:10]), (False, tasks[10:])):  # the easy ones come first
        for task in some:
            for batch in (experiment.rollouts_a, experiment.rollouts_b):
                for _ in range(2):
                    factories.trajectory(of=task, rollout_batch=batch, success=success)
    drawn = sorted(tasks, key=lambda task: shuffled_place(f"5 {task.pk}"))
    figures = current_standing(experiment)
    assert figures.success_a.rate == confidence_sequence([float(task in tasks[:10]) for task in drawn])


def test_a_difference_in_success_follows_the_drawn_order_of_tasks(researcher):
    experiment = begin(researcher, tasks=0)
    tasks = [factories.task(of=researcher.workspace) for _ in range(20)]
    for number, task in enumerate(tasks):  # A is better at the first level, B at the last
        for batch, success in ((experiment.rollouts_a, number < 10), (experiment.rollouts_b, number >= 10)):
            factories.trajectory(of=task, rollout_batch=batch, success=success)
    drawn = sorted(tasks, key=lambda task: shuffled_place(f"5 {task.pk}"))
    halves = confidence_sequence([float(task in tasks[:10]) for task in drawn])
    figures = current_standing(experiment)
    assert figures.success_difference.estimate == 0
    assert (figures.success_difference.low, figures.success_difference.high) == (
        2 * halves.low - 1,
        2 * halves.high - 1,
    )


def test_success_is_compared_task_by_task(researcher):
    experiment = begin(researcher)
    runs_arrive(experiment, success=(True, False))
    figures = current_standing(experiment)
    assert (figures.success_a.rate.estimate, figures.success_b.rate.estimate) == (1.0, 0.0)
    assert figures.success_difference.estimate == 1.0
    assert figures.success_difference.low > 0
    assert figures.outcome is Outcome.UNDECIDED


def test_stopping_what_the_rule_would_end_a_moment_later_is_no_early_stop(researcher):
    experiment = begin(researcher)
    runs_arrive(experiment)
    advance(experiment)
    experiment.refresh_from_db()
    judge(experiment, 2, how_many=10)
    stop_experiment(experiment=experiment, by=researcher.user)
    experiment.refresh_from_db()
    assert (experiment.verdict["outcome"], experiment.verdict["stopped_by_rule"]) == ("a_better", True)


def test_stopping_early_is_recorded_as_that(researcher):
    experiment = begin(researcher)
    with pytest.raises(NotRunning):
        stop_experiment(experiment=experiment, by=researcher.user)
    runs_arrive(experiment)
    advance(experiment)
    experiment.refresh_from_db()
    judge(experiment, 0, how_many=1)
    stop_experiment(experiment=experiment, by=researcher.user)
    experiment.refresh_from_db()
    assert experiment.verdict["stopped_by"] == researcher.user.name
    assert experiment.verdict["stopped_by_rule"] is False
    assert AuditEntry.objects.filter(action="stopped experiment").count() == 1
    with pytest.raises(NotRunning):
        stop_experiment(experiment=experiment, by=researcher.user)


def test_reading_the_standing_takes_the_same_queries_for_one_task_and_twelve(researcher, django_assert_num_queries):
    experiment = begin(researcher)
    runs_arrive(experiment)
    advance(experiment)
    experiment = Experiment.objects.select_related("rollouts_a", "rollouts_b").get(pk=experiment.pk)
    judge(experiment, 1, how_many=1)
    with django_assert_num_queries(6):
        current_standing(experiment)
    judge(experiment, 1, how_many=8)
    with django_assert_num_queries(6):
        current_standing(experiment)
