"""Annotators' feedback on their accuracy: nothing in it helps to correct an answer or to recognize a gold item."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role
from apps.annotation.desk.actions import UNDO_REACH, record, undo_last
from apps.annotation.desk.assignments import annotator_of, next_assignment
from apps.annotation.kinds.answers import Choice
from apps.annotation.models import Annotator, Desk, Item, Preference, Queue
from apps.annotation.quality.feedback import BATCH, STRETCH, batched, settled
from tests import factories
from tests.annotation import builders


def test_answers_settle_a_stretch_at_a_time_once_undo_no_longer_reaches_them():
    assert (STRETCH, UNDO_REACH) == (20, 10)
    sizes = [len(settled(range(answers))) for answers in (0, 29, 30, 49, 50, 71)]
    assert sizes == [0, 0, 20, 20, 40, 60]
    assert settled(range(31)) == range(20)  # the oldest ones


def test_gold_is_told_in_batches_at_the_end_of_a_stretch():
    every_fifth = [n % 5 == 0 for n in range(200)]  # four of every stretch
    counts = [len(batched(every_fifth[:settled_], bool)) for settled_ in (0, 20, 40, 60, 80, 100, 120)]
    assert counts == [0, 0, 0, 12, 12, 12, 24]


def test_gold_that_came_before_is_told_as_it_was():
    answers = list(range(120))
    before, after = (batched(answers[:settled_], lambda n: n % 4 == 0) for settled_ in (60, 120))
    assert after[: len(before)] == before


class Work:
    """An annotator in a queue where every second item given to them is gold; others have judged all of it."""

    def __init__(self, client: Client, items: int) -> None:
        self.client = client
        self.member = factories.member(Role.ANNOTATOR)
        self.queue = builders.queue(of=self.member.workspace, overlap=3, items=items, steps=0)
        builders.known(self.queue, Item.Purpose.GOLD, items // 2)
        Queue.objects.update(gold_percent=50)
        self.queue.refresh_from_db()
        for _ in range(2):
            other = factories.annotator(of=self.queue.workspace)
            while assignment := next_assignment(queue=self.queue, annotator=other):
                record(assignment=assignment, answer=Choice(1))
        client.force_login(self.member.user)

    @property
    def annotator(self) -> Annotator:
        return annotator_of(self.member)

    def answer(self, strength: int) -> Preference:
        assignment = next_assignment(queue=self.queue, annotator=self.annotator)
        assert assignment is not None
        return record(assignment=assignment, answer=Choice(strength), seconds=1.0)

    def page(self) -> str:
        return self.client.get(reverse("annotation:mine", args=[self.queue.pk])).content.decode()

    def shown_figures(self) -> tuple[str, str]:
        """(correct gold answers, agreement with others): "n of m", or a dash while undefined."""
        figures = re.findall(
            r'<td class="stay">(?:Gold accuracy|Agrees with majority)</td>(.*?)</tr>', self.page(), re.DOTALL
        )
        gold, others = ((re.search(r'title="(\d+ of \d+)', row) or ["", "–"])[1] for row in figures)
        return gold, others


@pytest.fixture
def work(client: Client) -> Work:
    return Work(client, items=64)


@pytest.fixture
def short_work(client: Client) -> Work:
    """For tests of the first answers."""
    return Work(client, items=24)


@pytest.mark.django_db
def test_both_figures_move_only_when_a_stretch_is_out_of_reach(work):
    seen = {}
    for n in range(1, 52):
        work.answer(1)
        if n in {19, 20, 21, 29, 30, 31, 40, 49, 50, 51}:
            seen[n] = work.shown_figures()
    assert {seen[n] for n in (19, 20, 21, 29)} == {("–", "–")}
    assert {seen[n] for n in (30, 31, 40, 49)} == {("10 of 10", "10 of 10")}  # of each stretch of 20, half are gold
    assert {seen[n] for n in (50, 51)} == {("20 of 20", "20 of 20")}
    assert Desk.objects.get(annotator=work.annotator).golds > 20  # the latest results are not shown yet


@pytest.mark.django_db
def test_before_that_the_page_says_why_they_are_undefined(short_work):
    short_work.answer(1)
    page = short_work.page()
    assert "not shown yet: it needs 10 answers to items with a known answer" in page
    assert "not shown yet: some of your first 20 answers can still be undone" in page


@pytest.mark.django_db
def test_no_answer_that_can_be_undone_moves_them_whatever_it_is(work):
    for _ in range(34):
        work.answer(1)
    figures = work.shown_figures()
    for _ in range(UNDO_REACH):
        undo_last(queue=work.queue, annotator=work.annotator)
    for _ in range(UNDO_REACH):
        work.answer(-1)
        assert work.shown_figures() in {figures, ("–", "–")}
    assert work.shown_figures() == figures


@pytest.mark.django_db
def test_every_other_number_of_the_page_moves_with_each_answer_gold_or_not(short_work):
    for n in range(1, 12):
        short_work.answer(1)
        page = short_work.page()
        assert f'<span class="figure">{n}</span><span class="name">judged in 1 sitting' in page
        of = dict(
            re.findall(
                r'<td class="stay">([^<]*)</td>.*?<td class="right num" data-label="of">(\d+)</td>', page, re.DOTALL
            )
        )
        assert (of["Hasty"], of["Left side won"]) == (str(n), str(n))
    assert 0 < Desk.objects.get(annotator=short_work.annotator).golds < 11


@pytest.mark.django_db
def test_a_batch_is_as_large_as_promised(work):
    assert BATCH == 10
    Queue.objects.update(gold_percent=20)
    work.queue.refresh_from_db()
    for _ in range(35):
        work.answer(1)
    assert work.shown_figures()[0] == "–"  # 4 of the first 20
