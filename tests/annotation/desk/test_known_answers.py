"""Gold and onboarding items, their settings, and an annotator's results. For the pages see test_checking_pages.py."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import AuditEntry, Membership, Role, Workspace
from apps.annotation.bulk.assignment import assign_items
from apps.annotation.desk.actions import flag, keep, record, skip, undo_last
from apps.annotation.desk.assignments import annotator_of, expire_leases, next_assignment, release_ahead
from apps.annotation.desk.known_answers import is_gold_due, is_right, lesson_of
from apps.annotation.kinds.answers import Choice
from apps.annotation.kinds.questions import Question, RatingAsks
from apps.annotation.models import Annotator, Assignment, Desk, Inspection, Item, Preference, Queue, Rating
from apps.annotation.quality.reports import gather
from apps.annotation.queries import desk_progress, queue_rows
from apps.annotation.queues import known_answers
from apps.annotation.queues.queue_lifecycle import EndHasCome, resume_queue
from apps.annotation.queues.settings import (
    NotAMember,
    Settings,
    change_settings,
    close_ended,
    pause_annotator,
    resume_annotator,
    retrain_annotator,
)
from apps.annotation.refusals import DeskPaused, NoSuchStep, NotForYou, NothingToUndo, QueueNotOpen
from apps.home.assigned_work import pace_of, waiting_for
from tests import factories
from tests.annotation import builders
from tests.annotation.builders import judge, known

pytestmark = pytest.mark.django_db


@pytest.fixture
def workspace() -> Workspace:
    return factories.workspace()


def all_of(queue: Queue, who: Annotator, strength: int = 1) -> list[str]:
    """Judge everything that `who` is given; returns each item's purpose."""
    purposes = []
    while assignment := next_assignment(queue=queue, annotator=who):
        record(assignment=assignment, answer=Choice(strength))
        purposes.append(Item.objects.get(pk=assignment.item_id).purpose)
    return purposes


def test_newcomers_get_every_training_item_first_and_everybody_gets_them(workspace):
    queue = builders.queue(of=workspace, items=5, steps=0)
    known(queue, Item.Purpose.ONBOARDING, 2)
    assert queue.item_count == 3
    first, second = builders.rule(of=workspace), builders.rule(of=workspace)
    assert all_of(queue, first) == ["training", "training", "work", "work", "work"]
    assert all_of(queue, second) == ["training", "training"]  # the work was one judgment each


def test_a_newcomer_is_told_whether_they_were_right_and_why(workspace):
    queue = builders.queue(of=workspace, items=2, steps=0)
    known(queue, Item.Purpose.ONBOARDING, 1, answer=-1)
    who = builders.rule(of=workspace)
    assignment = next_assignment(queue=queue, annotator=who)
    judged = record(assignment=assignment, answer=Choice(3))
    side = "right" if assignment.a_is_left else "left"  # where run b was
    assert judged.strength == 3
    assert lesson_of(assignment) == (False, f"{side} is better", "See rule 2.")
    judge(queue, who, 1)
    assert lesson_of(Assignment.objects.get(item__purpose="work")) is None
    desk = Desk.objects.get()
    assert (desk.trained, desk.trained_right, desk.judged) == (1, 0, 1)


def test_an_answer_that_was_corrected_cannot_be_undone(workspace):
    queue = builders.queue(of=workspace, items=1, steps=0)
    known(queue, Item.Purpose.ONBOARDING)
    who = builders.rule(of=workspace)
    judge(queue, who, 1)
    with pytest.raises(NothingToUndo):
        undo_last(queue=queue, annotator=who)


def test_somebody_sent_back_to_training_judges_those_items_again(workspace):
    queue = builders.queue(of=workspace, items=4, steps=0)
    known(queue, Item.Purpose.ONBOARDING, 2)
    who = builders.rule(of=workspace)
    for _ in range(3):
        judge(queue, who, 1)
    retrain_annotator(queue=queue, annotator=who, by=None)
    assert all_of(queue, who, -1) == ["training", "training", "work"]
    again = Preference.objects.filter(item__purpose="training")
    assert (again.count(), again.valid().count()) == (4, 2)  # the earlier answers are kept, marked as undone
    assert Desk.objects.get().trained_right == 0


def test_a_flag_comes_back_with_an_item_of_repeated_training(workspace):
    queue = builders.queue(of=workspace, items=2, steps=0)
    known(queue, Item.Purpose.ONBOARDING, 1)
    who = builders.rule(of=workspace)
    flag(assignment=next_assignment(queue=queue, annotator=who), reason="odd")
    judge(queue, who, 1)
    retrain_annotator(queue=queue, annotator=who, by=None)
    again = next_assignment(queue=queue, annotator=who)
    assert (again.flagged, again.flag_reason) == (True, "odd")
    flag(assignment=again, flagged=False)
    assert not Assignment.objects.filter(flagged=True).exists()


def test_gold_comes_about_as_often_as_asked_and_counts_for_nothing_else(workspace):
    queue = builders.queue(of=workspace, items=60, steps=0)
    known(queue, Item.Purpose.GOLD, 20)
    Queue.objects.update(gold_percent=25)
    queue.refresh_from_db()
    who = builders.rule(of=workspace)
    purposes = all_of(queue, who, 1)
    assert purposes.count("work") == 40
    assert 10 <= purposes.count("gold") <= 15  # 5 of every 20: about 13 when the 40 others are done
    desk = Desk.objects.get()
    assert (desk.judged, desk.golds, desk.golds_right) == (40, purposes.count("gold"), purposes.count("gold"))
    assert len(gather(queue).work) == 40


@pytest.mark.parametrize("places", [range(0, 20, 2), (0, 1, *range(10, 20))], ids=["mixed in", "due once work is done"])
def test_no_count_that_people_see_gives_a_gold_item_away(workspace, monkeypatch, places):
    monkeypatch.setattr("apps.annotation.desk.known_answers.is_gold_due", lambda desk, _: desk.offered in places)
    member = factories.member(Role.ANNOTATOR, of=workspace)
    queue, who = builders.queue(of=workspace, items=12, steps=0), annotator_of(member)
    known(queue, Item.Purpose.GOLD, 4)
    Queue.objects.update(gold_percent=50)
    queue.refresh_from_db()
    seen = [shown_counts(queue, member)]
    while assignment := next_assignment(queue=queue, annotator=who):
        record(assignment=assignment, answer=Choice(1), seconds=2.0)  # as much time as really passed
        seen.append(shown_counts(queue, member))
    golds = len(seen) - 1 - 8
    assert golds > 1
    assert [mine for mine, _ in seen] == list(range(len(seen)))
    assert [left for _, left in seen[:-1]] == [12 - n for n in range(len(seen) - 1)]
    assert seen[-1] == (8 + golds, 0)
    took = sum(Preference.objects.values_list("seconds", flat=True))
    assert Desk.objects.get(annotator=who).seconds == pytest.approx(took)  # included in the pace


@pytest.mark.parametrize("way", ["skipped", "held by others", "assigned to others"])
def test_no_gold_item_comes_to_somebody_for_whom_no_ordinary_one_is_left(workspace, monkeypatch, way):
    monkeypatch.setattr("apps.annotation.desk.known_answers.is_gold_due", lambda desk, _: desk.offered > 6)
    me, other = (factories.member(Role.ANNOTATOR, of=workspace) for _ in range(2))
    queue, who = builders.queue(of=workspace, items=8, steps=0), annotator_of(me)
    known(queue, Item.Purpose.GOLD, 4)
    Queue.objects.update(gold_percent=50)
    queue.refresh_from_db()
    if way == "assigned to others":
        everything = list(queue.items.filter(purpose="work").values_list("pk", flat=True))
        assign_items(queue=queue, items=everything, people=[other.user], by=me)
    elif way == "held by others":
        for _ in range(4):
            assert next_assignment(queue=queue, annotator=builders.rule(of=workspace)) is not None
    else:
        for _ in range(4):
            skip(assignment=next_assignment(queue=queue, annotator=who))
    Desk.objects.get_or_create(queue=queue, annotator=who)
    assert [next_assignment(queue=queue, annotator=who) for _ in range(10)] == [None] * 10
    assert Desk.objects.get(annotator=who).offered > 6  # gold items were due


@pytest.mark.parametrize("purpose", ["gold", "work"])
def test_an_item_loaded_ahead_and_let_go_comes_again_whether_it_is_gold_or_not(workspace, monkeypatch, purpose):
    due = 1 if purpose == "gold" else 99
    monkeypatch.setattr("apps.annotation.desk.known_answers.is_gold_due", lambda desk, _: desk.offered == due)
    queue, who = builders.queue(of=workspace, items=8, steps=0), builders.rule(of=workspace)
    known(queue, Item.Purpose.GOLD, 4)
    Queue.objects.update(gold_percent=50)
    queue.refresh_from_db()
    current = keep(assignment=next_assignment(queue=queue, annotator=who))
    ahead = [next_assignment(queue=queue, annotator=who, besides=[current.pk])]
    assert ahead[0].item.purpose == purpose
    for _ in range(3):
        release_ahead(queue=queue, annotator=who)
        ahead.append(next_assignment(queue=queue, annotator=who, besides=[current.pk]))
    assert {assignment.item_id for assignment in ahead} == {ahead[0].item_id}


def test_skipped_items_come_back_in_their_order_gold_ones_among_them_and_no_new_ones(workspace, monkeypatch):
    monkeypatch.setattr("apps.annotation.desk.known_answers.is_gold_due", lambda desk, _: desk.offered in (1, 3, 6, 7))
    queue, who = builders.queue(of=workspace, items=8, steps=0), annotator_of(factories.member(of=workspace))
    known(queue, Item.Purpose.GOLD, 4)
    Queue.objects.update(gold_percent=50, skipped_come_back=True)
    queue.refresh_from_db()
    for _ in range(6):
        skip(assignment=next_assignment(queue=queue, annotator=who))
    skipped = Assignment.objects.filter(state="skipped").order_by("closed_at").select_related("item")
    items = [assignment.item for assignment in skipped]
    assert [item.purpose for item in items] == ["work", "gold", "work", "gold", "work", "work"]
    again = []
    while assignment := next_assignment(queue=queue, annotator=who):
        record(assignment=assignment, answer=Choice(1))
        again.append(assignment.item)
    assert again == items


def test_no_skipped_gold_item_comes_back_once_others_have_taken_the_ordinary_ones(workspace, monkeypatch):
    monkeypatch.setattr("apps.annotation.desk.known_answers.is_gold_due", lambda desk, _: desk.offered == 1)
    queue, who = builders.queue(of=workspace, items=8, steps=0), annotator_of(factories.member(of=workspace))
    known(queue, Item.Purpose.GOLD, 4)
    Queue.objects.update(gold_percent=50, skipped_come_back=True)
    queue.refresh_from_db()
    for _ in range(5):
        skip(assignment=next_assignment(queue=queue, annotator=who))
    all_of(queue, builders.rule(of=workspace))
    assert Assignment.objects.filter(annotator=who, item__purpose="gold", state="skipped").exists()
    assert next_assignment(queue=queue, annotator=who) is None


def shown_counts(queue: Queue, member: Membership) -> tuple[int, int]:
    """The counts shown on the desk; the lists show the same."""
    progress = desk_progress(queue, annotator_of(member))
    [row], [waiting] = queue_rows([queue], member), waiting_for(member)
    assert progress.mine == row.mine == waiting.answered_by_me == pace_of(member).judged
    assert progress.left == row.left_for_me == waiting.left_for_me == waiting.all_for_me - waiting.answered_by_me
    return progress.mine, progress.left


def test_asking_again_does_not_roll_the_dice_again(workspace):
    desk = Desk(pk=7, offered=3)
    queue = Queue(gold_percent=50)
    assert len({is_gold_due(desk, queue) for _ in range(20)}) == 1
    assert sum(is_gold_due(Desk(pk=7, offered=n), queue) for n in range(400)) == 200
    assert sum(is_gold_due(Desk(pk=7, offered=n), Queue(gold_percent=3)) for n in range(400)) == 12


def test_undoing_a_gold_judgment_uncounts_it(workspace):
    queue = builders.queue(of=workspace, items=2, steps=0)
    known(queue, Item.Purpose.GOLD)
    Queue.objects.update(gold_percent=90)
    queue.refresh_from_db()
    who = builders.rule(of=workspace)
    desk = Desk.objects.create(queue=queue, annotator=who)
    due = next(n for n in range(100) if is_gold_due(Desk(pk=desk.pk, offered=n), queue))
    Desk.objects.update(offered=due)
    assert judge(queue, who, 1).item.purpose == Item.Purpose.GOLD
    undo_last(queue=queue, annotator=who)
    desk.refresh_from_db()
    assert (desk.golds, desk.golds_right, desk.judged) == (0, 0, 0)
    assert judge(queue, who, -1).item.purpose == Item.Purpose.GOLD
    assert Desk.objects.get().golds_right == 0


def test_a_gold_item_that_was_left_comes_back_with_its_draft(workspace):
    queue = builders.queue(of=workspace, items=1, steps=0)
    known(queue, Item.Purpose.ONBOARDING)
    who = builders.rule(of=workspace)
    held = next_assignment(queue=queue, annotator=who)
    Assignment.objects.filter(pk=held.pk).update(leased_until=now() - timedelta(seconds=1), opened_at=now())
    expire_leases(queue=queue)
    assert next_assignment(queue=queue, annotator=who) == held


def test_a_skipped_training_item_is_not_given_again(workspace):
    queue = builders.queue(of=workspace, items=2, steps=0)
    known(queue, Item.Purpose.ONBOARDING)
    who = builders.rule(of=workspace)
    skip(assignment=next_assignment(queue=queue, annotator=who))
    assert all_of(queue, who) == ["work"]


def test_gold_is_drawn_from_outcomes_that_are_known(workspace):
    queue = builders.queue(of=workspace, items=5, steps=0)  # of each pair, run a succeeded
    judge(queue, builders.rule(of=workspace), 1)
    assert known_answers.draw_gold(queue=queue, count=3, by=None) == 3
    queue.refresh_from_db()
    assert (queue.gold_count, queue.item_count) == (3, 2)
    assert {item.known["answer"] for item in queue.items.filter(purpose="gold")} == {1}
    known_answers.draw_gold(queue=queue, count=9, by=None)
    with pytest.raises(known_answers.NoOutcomeKnown):
        known_answers.draw_gold(queue=queue, count=1, by=None)  # the last one was judged


def test_gold_is_drawn_beside_what_somebody_skipped(workspace):
    queue = builders.queue(of=workspace, items=3, steps=0)
    skipped = keep(assignment=next_assignment(queue=queue, annotator=builders.rule(of=workspace)))
    skip(assignment=skipped)
    assert known_answers.draw_gold(queue=queue, count=3, by=None) == 2
    assert queue.items.get(purpose="work") == skipped.item


def test_what_somebody_has_seen_cannot_become_a_check(workspace):
    queue = builders.queue(of=workspace, items=1, steps=0)
    next_assignment(queue=queue, annotator=builders.rule(of=workspace))
    with pytest.raises(known_answers.SeenAlready):
        known_answers.make_known(item=queue.items.get(), purpose=Item.Purpose.GOLD, answer=1, by=None)


def test_a_first_error_beyond_the_end_of_the_run_is_no_answer(workspace):
    item = builders.queue_of_trajectories(of=workspace, steps=4).items.get()
    with pytest.raises(NoSuchStep, match="There is no step 5: this trajectory has 4"):
        known_answers.make_known(item=item, purpose=Item.Purpose.GOLD, answer=4, by=None)
    known_answers.make_known(item=item, purpose=Item.Purpose.GOLD, answer=3, by=None)


def test_pairs_of_an_experiment_cannot_become_checks(workspace):
    queue = builders.queue(of=workspace, items=2, steps=0, selection={"experiment": "1"})
    item = queue.items.first()
    with pytest.raises(known_answers.PairsFixedByPlan, match="counts in its verdict"):
        known_answers.make_known(item=item, purpose=Item.Purpose.GOLD, answer=1, by=None)
    with pytest.raises(known_answers.PairsFixedByPlan):
        known_answers.draw_gold(queue=queue, count=1, by=None)
    Item.objects.filter(pk=item.pk).update(purpose="gold", known={"answer": 1})
    Queue.objects.update(item_count=1, gold_count=1)
    known_answers.make_work(item=item, by=None)  # an item with a known answer can get another one
    assert not queue.items.exclude(purpose="work").exists()


def test_a_check_becomes_an_ordinary_item_again(workspace):
    queue = builders.queue(of=workspace, items=1, overlap=2, steps=0)
    (item,) = known(queue, Item.Purpose.GOLD)
    known_answers.make_work(item=item, by=None)
    queue.refresh_from_db()
    item.refresh_from_db()
    assert (queue.item_count, queue.gold_count, item.overlap, item.known) == (1, 0, 2, None)


WELL = RatingAsks((Question("well", "Done well?", 5),), thumb=False).to_json()


@pytest.mark.parametrize(
    ("judgment", "answer", "right"),
    [
        (Preference(strength=1), 1, True),
        (Preference(strength=-3), 1, False),
        (Preference(strength=0, both_bad=True), 0, True),
        (Inspection(ending="solved"), "none", True),
        (Inspection(ending="found_error", first_error=4), 4, True),
        (Inspection(ending="found_error", first_error=3), 4, False),
        (Inspection(ending="give_up"), "none", False),
        (Rating(queue=Queue(), thumb=-1), -1, True),
        (Rating(queue=Queue(), thumb=None), -1, False),
        (Rating(queue=Queue(asks=WELL), answers={"well": 2}), -1, True),  # no thumb: below the middle of its scale
        (Rating(queue=Queue(asks=WELL), answers={"well": 3}), -1, False),  # the middle says neither
        (Rating(queue=Queue(asks=WELL), answers={"well": 2}, thumb=1), -1, False),  # the thumb comes first
    ],
)
def test_right_is_what_is_known_however_strongly_it_was_said(judgment, answer, right):
    assert is_right(Item(known={"answer": answer}), judgment) is right


def settings(queue: Queue, **changes: object) -> Settings:
    settings = {
        "name": queue.name,
        "overlap": queue.overlap,
        "lease_seconds": queue.lease_seconds,
        "skipped_come_back": False,
        "gold_percent": 0,
        "blind_review": True,
        "shows_machines": False,
        "ends_at": None,
        "ends_after": None,
        "labelers": None,
    }
    return Settings(**{**settings, **changes})


def test_a_queue_for_named_people_is_hidden_from_others_and_gives_them_nothing(workspace, client):
    queue = builders.queue(of=workspace, steps=0)
    named, other = (factories.member(Role.ANNOTATOR, of=workspace) for _ in range(2))
    change_settings(queue=queue, settings=settings(queue, labelers=[named.user_id]), by=named.user)
    queue.refresh_from_db()
    assert list(Queue.objects.visible_to(named)) == [queue]
    assert not Queue.objects.visible_to(other).exists()
    client.force_login(other.user)
    assert client.get(reverse("annotation:desk", args=[queue.pk])).status_code == 404
    with pytest.raises(NotForYou):
        next_assignment(queue=queue, annotator=annotator_of(other))
    assert next_assignment(queue=queue, annotator=annotator_of(named)) is not None


def test_nobody_from_elsewhere_can_be_named(workspace):
    queue = builders.queue(of=workspace, steps=0)
    stranger = factories.member()
    with pytest.raises(NotAMember):
        change_settings(queue=queue, settings=settings(queue, labelers=[stranger.user_id]), by=stranger.user)


def test_a_queue_ends_on_its_date(workspace):
    queue = builders.queue(of=workspace, steps=0)
    Queue.objects.update(ends_at=now() - timedelta(seconds=1))
    queue.refresh_from_db()
    with pytest.raises(QueueNotOpen):
        next_assignment(queue=queue, annotator=builders.rule(of=workspace))
    close_ended()
    queue.refresh_from_db()
    assert queue.state == Queue.State.CLOSED
    with pytest.raises(EndHasCome):
        resume_queue(queue=queue, by=None)
    queue.ends_at = now() + timedelta(days=1)
    resume_queue(queue=queue, by=None)
    assert queue.state == Queue.State.OPEN


def test_a_queue_that_has_its_judgments_says_so_when_it_is_opened_again(workspace):
    queue = builders.queue(of=workspace, items=2, steps=0)
    judge(queue, builders.rule(of=workspace), 1)
    Queue.objects.update(ends_after=1, state=Queue.State.CLOSED)
    queue.refresh_from_db()
    with pytest.raises(EndHasCome, match="number of judgments"):
        resume_queue(queue=queue, by=None)


def test_a_queue_ends_after_its_number_of_judgments(workspace):
    queue = builders.queue(of=workspace, items=5, steps=0)
    Queue.objects.update(ends_after=2)
    queue.refresh_from_db()
    who = builders.rule(of=workspace)
    judge(queue, who, 1)
    close_ended()
    queue.refresh_from_db()
    assert queue.state == Queue.State.OPEN
    judge(queue, who, 1)
    with pytest.raises(QueueNotOpen):
        next_assignment(queue=queue, annotator=who)
    close_ended()
    queue.refresh_from_db()
    assert queue.state == Queue.State.CLOSED


def test_a_paused_person_reads_why_and_may_finish_what_is_in_hand(workspace):
    queue = builders.queue(of=workspace, items=3, steps=0)
    who = builders.rule(of=workspace)
    held = keep(assignment=next_assignment(queue=queue, annotator=who))
    next_assignment(queue=queue, annotator=who, besides=[held.pk])  # preloaded, never shown
    pause_annotator(queue=queue, annotator=who, reason="Let us talk first.", by=None)
    assert next_assignment(queue=queue, annotator=who) == held
    record(assignment=held, answer=Choice(1))
    with pytest.raises(DeskPaused, match="Let us talk first"):
        next_assignment(queue=queue, annotator=who)
    resume_annotator(queue=queue, annotator=who, by=None)
    assert next_assignment(queue=queue, annotator=who) is not None
    assert set(AuditEntry.objects.values_list("action", flat=True)) >= {"paused", "resumed"}


def test_nobody_works_out_where_gold_items_come(settings):
    """Desk ids are sequential, and the algorithm that draws positions is public."""
    queue = Queue(gold_percent=10)

    def places():
        return [n for n in range(200) if is_gold_due(Desk(pk=1, offered=n), queue)]

    before = places()
    assert places() == before
    settings.SECRET_KEY = "another installation's"
    assert places() != before
    assert len(places()) == len(before) == 20
