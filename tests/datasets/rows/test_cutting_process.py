"""Runs cut by a process of its own: the rows are the same."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from apps.accounts.models import Membership
from apps.annotation.models import Queue
from apps.common.second_process import Stopped
from apps.datasets import freezing
from apps.datasets.models import Dataset, Version
from apps.datasets.recipe import Recipe
from apps.datasets.rows import pair_rows
from apps.datasets.rows.cutting import Cut, Cutter, Wanted
from apps.datasets.rows.cutting_process import CuttingProcess
from apps.datasets.rows.preference import SameRuns
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)  # the process sees only what is committed

CUTTER = Cutter(by_step=False, keep_surrogates=False)


@pytest.fixture
def process() -> Iterator[CuttingProcess]:
    with closing(CuttingProcess(CUTTER)) as running:
        yield running


def wanted(*first_won: bool) -> Wanted:
    pair = factories.item()
    return Wanted(str(pair.a_id), str(pair.b_id), first_won)


def test_it_answers_as_the_cutter_does_in_the_order_of_asking(process: CuttingProcess) -> None:
    pairs = [wanted(True), wanted(False, True), wanted()]
    process.ask(pairs[:2])
    process.ask(pairs[2:])
    assert list(process.answers(3)) == list(CUTTER.cut(pairs))


def test_why_there_is_no_row_is_an_answer(process: CuttingProcess) -> None:
    run = factories.trajectory()
    process.ask([Wanted(str(run.pk), str(run.pk), (True,)), wanted(True)])
    same, other = process.answers(2)
    assert isinstance(same.rows[0], SameRuns)
    assert other.rows[0].chosen


def test_a_request_that_it_cannot_answer_ends_it(process: CuttingProcess) -> None:
    process.ask([Wanted("no id", "no id", (True,))])
    with pytest.raises(Stopped, match=r"cutting_process, .* ended with status 1"):
        next(process.answers(1))


def test_a_version_is_the_same_whoever_cut_it(
    dataset: Dataset, member: Membership, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    for strength in (3, -2, 1, 0, -1):
        factories.preference(strength, on=factories.item(of=queue))
    recipe = Recipe(queues=(str(queue.pk),))

    def frozen() -> Version:
        version = freezing.request_version(dataset=dataset, recipe=replace(recipe), by=member)
        assert freezing.freeze(version.pk)
        version.refresh_from_db()
        return version

    here = frozen()
    asked: list[Cut] = []
    answers = CuttingProcess.answers
    monkeypatch.setattr(pair_rows, "WORTH_A_PROCESS", 1)
    monkeypatch.setattr(pair_rows, "PAIRS_AT_ONCE", 2)  # several chunks
    monkeypatch.setattr(CuttingProcess, "answers", lambda *each: (asked.append(cut) or cut for cut in answers(*each)))
    elsewhere = frozen()
    assert len(asked) == 4  # of five pairs one is a tie
    assert elsewhere.content_hash == here.content_hash
    assert elsewhere.row_counts == here.row_counts
    assert elsewhere.sources.count() == 4
