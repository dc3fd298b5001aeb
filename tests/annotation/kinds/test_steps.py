import json

import pytest
from django.db import IntegrityError, connection, transaction

from apps.annotation.desk.actions import record, undo_last
from apps.annotation.kinds import STEPS
from apps.annotation.kinds.answers import Choice, CorrectedAction, InspectionAnswer, Label
from apps.annotation.kinds.questions import StepsAsks
from apps.annotation.models import Assignment, Continuation, Correction, Desk, Inspection, Item, Queue
from apps.annotation.refusals import AlreadyJudged, AnswerTooLong, Incomplete, WrongKind
from tests import factories
from tests.annotation import builders
from tests.annotation.desk.test_assignments import take

pytestmark = pytest.mark.django_db
GOOD = {"role": "assistant", "content": "The lamp is on shelf 2."}


def walk(*values: int, **fields) -> InspectionAnswer:
    """A label for each of the first steps."""
    labels = tuple(Label(index, value) for index, value in enumerate(values))
    return InspectionAnswer(**{"ending": "solved", "labels": labels, **fields})


def found(first_error: int, *values: int, **fields) -> InspectionAnswer:
    return walk(*values, ending="found_error", first_error=first_error, **fields)


@pytest.fixture
def queue() -> Queue:
    return builders.queue_of_trajectories(items=3)


@pytest.fixture
def annotator(queue: Queue):
    return builders.rule(of=queue.workspace)


def test_an_inspection_keeps_each_label_and_each_better_action(queue, annotator):
    spans = [{"part": "call", "start": 4, "quote": "shelf \ud800", "note": ""}]
    labels = (Label(0, 1, is_filled=True), Label(1, -1, critique="looks twice", spans=spans))
    answer = InspectionAnswer("found_error", 1, labels, (CorrectedAction(1, GOOD),), "wanders")
    inspection = record(assignment=take(queue, annotator), answer=answer, guideline_version=2)
    assert InspectionAnswer.of(Inspection.objects.get()) == answer
    assert inspection.corrections.get().origin == Correction.Origin.WRITTEN
    assert (inspection.guideline_version, Item.objects.get(pk=inspection.item_id).judged) == (2, 1)
    assert Desk.objects.get().judged == 1


def test_all_passages_that_were_marked_in_a_step_are_kept():
    span = {"part": "said", "start": 0, "quote": "lamp", "note": ""}
    labels = json.dumps([{"index": 0, "value": 1, "spans": [span] * 60}])
    form = STEPS.form({"ending": "solved", "labels": labels}, asks=StepsAsks())
    assert form.is_valid()
    assert form.cleaned_data["labels"][0]["spans"] == [span] * 60


def test_the_same_walk_again_is_the_same_inspection_and_another_is_refused(queue, annotator):
    assignment = take(queue, annotator)
    first = record(assignment=assignment, answer=walk(1, 1, 0, 1))
    assert record(assignment=assignment, answer=walk(1, 1, 0, 1)) == first
    with pytest.raises(AlreadyJudged):
        record(assignment=assignment, answer=walk(1, 1, 1, 1))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (walk(1, 1, 1), "Label step 4 first."),
        (found(2, 1), "cannot be good"),
        (found(2, 1, 1, 1), "cannot be good"),
        (InspectionAnswer("found_error", 2, (Label(2, -1),)), "Label step 1, 2 first."),
        (walk(1, 1, 1, 1, first_error=2), "choose another ending"),
        (walk(1, 1, 1, 1, ending="found_error"), "Mark the first wrong step"),
        (walk(1, 1, 1, 1, 1), "There is no step 5: this trajectory has 4."),
        (walk(1, 1, 1, 1, corrections=(CorrectedAction(4, GOOD),)), "There is no step 5"),
    ],
)
def test_what_the_queue_still_wants_is_said_and_nothing_is_stored(queue, annotator, answer, words):
    with pytest.raises(Incomplete, match=words):
        record(assignment=take(queue, annotator), answer=answer)
    assert not Inspection.objects.exists()
    assert Assignment.objects.get().state == Assignment.State.OPEN


@pytest.mark.parametrize(
    "answer",
    [
        found(1, 1, -1),
        InspectionAnswer("give_up"),
        InspectionAnswer("bad_problem", labels=(Label(2, 0),)),
        walk(1, -1, 1, 1),
    ],
)
def test_an_error_ends_the_labeling_and_so_does_giving_up(queue, annotator, answer):
    assert record(assignment=take(queue, annotator), answer=answer).ending == answer.ending


def test_a_queue_may_ask_for_the_steps_that_matter_only_and_for_no_corrections():
    queue = builders.queue_of_trajectories(asks=StepsAsks(every_step=False, corrections=False), items=2)
    annotator = builders.rule(of=queue.workspace)
    with pytest.raises(Incomplete, match="accept corrections"):
        record(assignment=take(queue, annotator), answer=walk(corrections=(CorrectedAction(0, GOOD),)))
    record(assignment=take(queue, annotator), answer=walk())


def test_undo_gives_the_whole_walk_back_as_a_draft(queue, annotator):
    policy = factories.policy(of=queue.workspace)
    assignment = take(queue, annotator)
    Continuation.objects.create(
        workspace=queue.workspace,
        trajectory=assignment.item.a,
        policy=policy,
        index=1,
        count=1,
        messages=[GOOD],
        state="done",
    )
    record(
        assignment=assignment,
        answer=found(1, 1, -1, corrections=(CorrectedAction(1, GOOD, policy.pk),), rationale="why"),
    )
    draft = undo_last(queue=queue, annotator=annotator).draft
    assert (draft["ending"], draft["first_error"], draft["rationale"]) == ("found_error", 1, "why")
    assert [(label["index"], label["value"]) for label in draft["labels"]] == [(0, 1), (1, -1)]
    assert draft["corrections"] == [{"index": 1, "message": GOOD, "policy": str(policy.pk)}]
    assert Inspection.objects.get().retracted_at is not None


@pytest.mark.parametrize(
    ("one", "other", "disputed"),
    [
        (walk(1, 1, 1, 1), found(1, 1, -1), True),
        (found(0, -1), found(1, 1, -1), True),
        (found(1, 1, -1), found(1, 0, -1), False),
        (InspectionAnswer("give_up"), found(1, 1, -1), False),
    ],
)
def test_people_who_find_different_first_errors_disagree(one, other, disputed):
    queue = builders.queue_of_trajectories(overlap=2)
    for answer in (one, other):
        record(assignment=take(queue, builders.rule(of=queue.workspace)), answer=answer)
    assert Item.objects.get().disputed is disputed


def test_each_kind_of_queue_takes_its_kind_of_judgment_only(queue, annotator):
    with pytest.raises(WrongKind):
        record(assignment=take(queue, annotator), answer=Choice(1))
    pairs = builders.queue(of=queue.workspace)
    with pytest.raises(WrongKind):
        record(assignment=take(pairs, annotator), answer=walk())


def test_the_database_keeps_pairs_out_of_queues_of_single_runs(queue):
    item = queue.items.first()
    other = builders.attempt(item.task)
    for wrong in (
        {"kind": Queue.Kind.PAIRWISE, "a": item.a, "b": other},  # a pair, as a pair
        {"kind": Queue.Kind.STEPS, "a": item.a, "b": other},  # a pair, as a run
        {"kind": Queue.Kind.STEPS, "a": item.a},  # the same run twice
    ):
        with pytest.raises(IntegrityError):
            put_in_at_once(queue=queue, position=99, task=item.task, overlap=1, **wrong)


@transaction.atomic
def put_in_at_once(**fields) -> None:
    """Add an item and check foreign keys now, not when the test's own transaction ends."""
    Item.objects.create(**fields)
    connection.check_constraints()


def test_an_answer_beyond_a_million_characters_is_refused_and_the_item_stays_in_hand(queue, annotator):
    spans = [{"part": "call", "start": 0, "quote": "x" * 500_000, "note": "y" * 500_000}]
    assignment = take(queue, annotator)
    long = InspectionAnswer("solved", None, (Label(0, 1, spans=spans), Label(1, 1)))
    with pytest.raises(
        AnswerTooLong, match="characters including the notes on its steps; at most 1,000,000 are allowed"
    ):
        record(assignment=assignment, answer=long)
    assert record(assignment=assignment, answer=walk(1, 1, 1, 1)).pk
