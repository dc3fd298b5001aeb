"""Pairs read by a separate process give the same rows."""

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
from apps.datasets.rows import pairs
from apps.datasets.rows.divergence import SameTrajectories
from apps.datasets.rows.pair_reader import PairMessages, PairReader, PairReaderProcess, PairRequest
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)  # the other process sees only committed rows

READER = PairReader("preference", keep_surrogates=False)


@pytest.fixture
def process() -> Iterator[PairReaderProcess]:
    with closing(PairReaderProcess(READER)) as running:
        yield running


def wanted(*first_won: bool) -> PairRequest:
    pair = factories.item()
    return PairRequest(str(pair.a_id), str(pair.b_id), first_won)


def test_it_answers_as_the_reader_does_in_the_order_of_asking(process: PairReaderProcess) -> None:
    requests = [wanted(True), wanted(False, True), wanted()]
    process.ask(requests[:2])
    process.ask(requests[2:])
    assert list(process.answers(3)) == list(READER.read(requests))


def test_why_there_is_no_row_is_an_answer(process: PairReaderProcess) -> None:
    run = factories.trajectory()
    process.ask([PairRequest(str(run.pk), str(run.pk), (True,)), wanted(True)])
    same, other = process.answers(2)
    assert isinstance(same.rows[0], SameTrajectories)
    assert other.rows[0].chosen


def test_a_request_that_it_cannot_answer_ends_it(process: PairReaderProcess) -> None:
    process.ask([PairRequest("no id", "no id", (True,))])
    with pytest.raises(Stopped, match=r"pair_reader, .* ended with status 1"):
        next(process.answers(1))


def test_a_version_is_the_same_whoever_read_it(
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
    results: list[PairMessages] = []
    answers = PairReaderProcess.answers
    monkeypatch.setattr(pairs, "WORTH_A_PROCESS", 1)
    monkeypatch.setattr(pairs, "PAIRS_AT_ONCE", 2)  # several chunks
    monkeypatch.setattr(
        PairReaderProcess, "answers", lambda *args: (results.append(cut) or cut for cut in answers(*args))
    )
    elsewhere = frozen()
    assert len(results) == 4  # one of the five pairs is a tie
    assert elsewhere.content_hash == here.content_hash
    assert elsewhere.row_counts == here.row_counts
    assert elsewhere.sources.count() == 4
