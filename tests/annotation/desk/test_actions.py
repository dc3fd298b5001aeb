from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from django.db import connections
from django.utils.timezone import now

from apps.annotation.desk.actions import flag, keep, record, reopen_skipped, save_draft, skip, undo_last
from apps.annotation.desk.assignments import expire_leases, next_assignment
from apps.annotation.kinds.answers import Choice
from apps.annotation.models import Annotator, Assignment, Desk, Item, Preference, Queue
from apps.annotation.queues.queue_lifecycle import close_queue
from apps.annotation.refusals import AlreadyJudged, AlreadySkipped, NothingToUndo, PlaceLost, Refusal, TakenBack
from tests import factories
from tests.annotation import builders
from tests.annotation.desk.test_assignments import lapse, take

pytestmark = pytest.mark.django_db


@pytest.fixture
def queue() -> Queue:
    return builders.queue(items=15)


@pytest.fixture
def annotator(queue: Queue) -> Annotator:
    return builders.rule(of=queue.workspace)


def test_a_judgment_says_what_was_seen_and_closes_the_assignment(queue, annotator):
    assignment = take(queue, annotator)
    preference = record(assignment=assignment, answer=Choice(-2, rationale="b asks first"), guideline_version=4)
    assert (preference.strength, preference.rationale, preference.guideline_version) == (-2, "b asks first", 4)
    assert preference.a_was_left == assignment.a_is_left
    assignment.refresh_from_db()
    assert assignment.state == Assignment.State.JUDGED
    assert Item.objects.get(pk=assignment.item_id).judged == 1


def test_the_same_answer_again_is_the_same_judgment(queue, annotator):
    assignment = take(queue, annotator)
    first = record(assignment=assignment, answer=Choice(2, rationale="x"))
    assert record(assignment=assignment, answer=Choice(2, rationale="x")) == first
    assert Desk.objects.get().judged == 1


def test_another_answer_to_a_judged_assignment_is_refused(queue, annotator):
    assignment = take(queue, annotator)
    record(assignment=assignment, answer=Choice(2))
    with pytest.raises(AlreadyJudged):
        record(assignment=assignment, answer=Choice(-2))
    assert Preference.objects.get().strength == 2


def test_a_lapsed_lease_is_no_obstacle_while_the_place_is_free(queue, annotator):
    assignment = take(queue, annotator)
    lapse(assignment)
    expire_leases()
    record(assignment=assignment, answer=Choice(1))
    item = Item.objects.get(pk=assignment.item_id)
    assert (item.taken, item.judged) == (1, 1)


def test_a_lapsed_lease_whose_place_went_to_another_is_refused_and_keeps_its_text(queue, annotator):
    assignment = take(queue, annotator)
    lapse(assignment)
    expire_leases()
    other = builders.rule(of=queue.workspace)
    record(assignment=take(queue, other), answer=Choice(1))
    with pytest.raises(PlaceLost):
        record(assignment=assignment, answer=Choice(1))
    save_draft(assignment=assignment, draft={"rationale": "not lost"})
    assignment.refresh_from_db()
    assert assignment.draft == {"rationale": "not lost"}


def test_seconds_cannot_exceed_the_time_since_the_item_was_shown(queue, annotator):
    assignment = keep(assignment=take(queue, annotator))
    Assignment.objects.update(opened_at=now() - timedelta(seconds=30))
    preference = record(assignment=assignment, answer=Choice(1), seconds=86_400)
    assert 30 <= preference.seconds < 40


def test_undo_marks_the_judgment_and_gives_the_item_back_with_its_answer(queue, annotator):
    assignment = take(queue, annotator)
    first = record(assignment=assignment, answer=Choice(3, rationale="because"))
    again = undo_last(queue=queue, annotator=annotator)
    first.refresh_from_db()
    assert first.retracted_at is not None
    assert first.strength == 3
    assert again.item == assignment.item
    assert again.a_is_left == assignment.a_is_left
    assert again.draft["answer"] == ("3" if assignment.a_is_left else "-3")
    assert again.draft["rationale"] == "because"
    second = record(assignment=again, answer=Choice(-1))
    assert list(Preference.objects.valid()) == [second]
    assert Item.objects.get(pk=assignment.item_id).judged == 1
    with pytest.raises(TakenBack):
        record(assignment=assignment, answer=Choice(3))


def test_nobody_gets_the_place_of_a_judgment_taken_back():
    queue = builders.queue(items=1)
    annotator = builders.rule(of=queue.workspace)
    record(assignment=take(queue, annotator), answer=Choice(3))
    again = undo_last(queue=queue, annotator=annotator)
    assert next_assignment(queue=queue, annotator=builders.rule(of=queue.workspace)) is None
    assert take(queue, annotator) == again


def test_undo_reaches_back_ten_items_and_then_they_come_in_their_order(queue, annotator):
    for n in range(12):
        record(assignment=take(queue, annotator), answer=Choice(1, rationale=str(n)))
    undone = [undo_last(queue=queue, annotator=annotator).item.position for _ in range(10)]
    assert undone == [11, 10, 9, 8, 7, 6, 5, 4, 3, 2]
    with pytest.raises(NothingToUndo):
        undo_last(queue=queue, annotator=annotator)
    for expected in [2, 3, 4]:
        assignment = take(queue, annotator)
        assert assignment.item.position == expected
        record(assignment=assignment, answer=Choice(-1))
    assert Desk.objects.get().judged == 5


def test_undo_ends_at_the_same_item_also_once_what_it_brought_back_has_lapsed(queue, annotator):
    for _ in range(12):
        record(assignment=take(queue, annotator), answer=Choice(1))
    for _ in range(10):
        lapse(undo_last(queue=queue, annotator=annotator))
    expire_leases()
    with pytest.raises(NothingToUndo):
        undo_last(queue=queue, annotator=annotator)
    record(assignment=take(queue, annotator), answer=Choice(-1))
    assert undo_last(queue=queue, annotator=annotator).draft["answer"]
    with pytest.raises(NothingToUndo):
        undo_last(queue=queue, annotator=annotator)
    assert Desk.objects.get().judged == 2


def test_a_flag_comes_back_with_what_was_taken_back(queue, annotator):
    judged = take(queue, annotator)
    flag(assignment=judged, reason="odd")
    record(assignment=judged, answer=Choice(1))
    again = undo_last(queue=queue, annotator=annotator)
    assert (again.flagged, again.flag_reason) == (True, "odd")
    flag(assignment=again, flagged=False)
    assert not Assignment.objects.filter(flagged=True).exists()


def test_answers_stay_once_an_experiment_is_over():
    queue = builders.queue(items=2, selection={"experiment": "1"})
    who = builders.rule(of=queue.workspace)
    record(assignment=take(queue, who), answer=Choice(1))
    record(assignment=undo_last(queue=queue, annotator=who), answer=Choice(2))
    close_queue(queue=queue, by=None)
    with pytest.raises(NothingToUndo, match="its result depends on these answers"):
        undo_last(queue=queue, annotator=who)
    assert Preference.objects.valid().get().strength == 2


def test_a_skip_gives_its_place_to_others_and_can_be_undone(queue, annotator):
    assignment = take(queue, annotator)
    skip(assignment=assignment, reason="a language I do not read")
    assert Item.objects.get(pk=assignment.item_id).taken == 0
    with pytest.raises(AlreadySkipped):
        record(assignment=assignment, answer=Choice(1))
    again = undo_last(queue=queue, annotator=annotator)
    assert again.item == assignment.item
    assert Item.objects.get(pk=assignment.item_id).taken == 1
    assert Desk.objects.get().skipped == 0


def test_a_skip_whose_item_others_took_stays(queue, annotator):
    assignment = take(queue, annotator)
    skip(assignment=assignment)
    assert take(queue, builders.rule(of=queue.workspace)).item == assignment.item
    with pytest.raises(PlaceLost):
        undo_last(queue=queue, annotator=annotator)
    assignment.refresh_from_db()
    assert assignment.state == Assignment.State.SKIPPED


def test_undo_passes_over_a_skip_whose_item_others_took(queue, annotator):
    judged = take(queue, annotator)
    record(assignment=judged, answer=Choice(1))
    lost = take(queue, annotator)
    skip(assignment=lost)
    assert take(queue, builders.rule(of=queue.workspace)).item == lost.item
    assert undo_last(queue=queue, annotator=annotator).item == judged.item
    lost.refresh_from_db()
    assert lost.state == Assignment.State.SKIPPED
    assert Desk.objects.get(annotator=annotator).skipped == 1


@pytest.mark.parametrize("overlap", [1, 2])
def test_a_skip_is_over_once_its_item_came_back(overlap):
    queue = builders.queue(overlap=overlap)
    Queue.objects.update(skipped_come_back=True)
    queue.refresh_from_db()
    person = factories.annotator(of=queue.workspace)
    skip(assignment=take(queue, person))
    again = take(queue, person)
    assert Desk.objects.get().skipped == 0
    with pytest.raises(NothingToUndo):
        undo_last(queue=queue, annotator=person)
    record(assignment=again, answer=Choice(1))
    assert undo_last(queue=queue, annotator=person).draft["answer"] in ("1", "-1")
    with pytest.raises(NothingToUndo):
        undo_last(queue=queue, annotator=person)


def test_a_flag_comes_back_with_a_skipped_item(queue):
    queue.skipped_come_back = True
    person = factories.annotator(of=queue.workspace)
    Item.objects.exclude(pk=queue.items.order_by("position").first().pk).delete()
    skipped = take(queue, person)
    flag(assignment=skipped, reason="odd")
    skip(assignment=skipped)
    again = take(queue, person)
    assert again.item_id == skipped.item_id
    assert (again.flagged, again.flag_reason) == (True, "odd")
    flag(assignment=again, flagged=False)
    assert not Assignment.objects.filter(flagged=True).exists()


def test_a_flag_comes_back_with_skipped_items_that_are_asked_for(queue, annotator):
    skipped = take(queue, annotator)
    flag(assignment=skipped, reason="odd")
    skip(assignment=skipped)
    reopen_skipped(queue=queue, annotator=annotator)
    again = take(queue, annotator)
    assert (again.item_id, again.flag_reason) == (skipped.item_id, "odd")
    assert list(Assignment.objects.filter(flagged=True)) == [again]


def test_a_tab_that_shows_what_was_taken_back_flags_nothing(queue, annotator):
    judged = record(assignment=take(queue, annotator), answer=Choice(1)).assignment
    again = undo_last(queue=queue, annotator=annotator)
    with pytest.raises(TakenBack):
        flag(assignment=judged, reason="odd")
    assert not Assignment.objects.filter(flagged=True).exists()  # nobody could lift it
    flag(assignment=again, reason="odd")


def test_a_flag_stays_until_it_is_lifted(queue, annotator):
    assignment = take(queue, annotator)
    flag(assignment=assignment, reason="the second run is empty")
    assignment.refresh_from_db()
    assert (assignment.flagged, assignment.flag_reason) == (True, "the second run is empty")
    flag(assignment=assignment, flagged=False)
    assignment.refresh_from_db()
    assert (assignment.flagged, assignment.flag_reason) == (False, "")


@pytest.mark.parametrize(
    ("strengths", "disputed"), [([2, -1], True), ([2, 1], False), ([0, -3], False), ([3, 0, -3], True)]
)
def test_an_item_is_disputed_when_people_prefer_different_runs(strengths, disputed):
    queue = builders.queue(overlap=3)
    for strength in strengths:
        record(assignment=take(queue, builders.rule(of=queue.workspace)), answer=Choice(strength))
    assert Item.objects.get().disputed is disputed


def test_a_dispute_ends_when_one_side_takes_it_back():
    queue = builders.queue(overlap=2)
    one, other = (builders.rule(of=queue.workspace) for _ in range(2))
    record(assignment=take(queue, one), answer=Choice(1))
    record(assignment=take(queue, other), answer=Choice(-1))
    undo_last(queue=queue, annotator=other)
    assert Item.objects.get().disputed is False


@pytest.mark.django_db(transaction=True)
def test_a_double_click_and_a_second_tab_make_one_judgment():
    queue = builders.queue(items=1, overlap=2)
    annotator = builders.rule(of=queue.workspace)
    assignment = take(queue, annotator)
    start = Barrier(8)

    def submit(strength: int) -> str:
        start.wait()
        try:
            return str(record(assignment=assignment, answer=Choice(strength)).strength)
        except Refusal as refusal:
            return refusal.code
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(submit, [1, 1, 1, 1, 2, 2, 2, 2]))
    stored = str(Preference.objects.get().strength)
    assert answers.count(stored) == 4
    assert answers.count("already_judged") == 4
    assert Item.objects.get().judged == 1
