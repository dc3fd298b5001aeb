"""The minimum time in which an item can be read."""

import pytest

from apps.accounts.models import Role
from apps.annotation.desk.actions import record
from apps.annotation.desk.assignments import annotator_of, next_assignment
from apps.annotation.kinds.answers import Choice
from apps.annotation.models import Preference
from apps.annotation.quality.presentation import people_rows
from apps.annotation.quality.reading_time import least_seconds
from apps.annotation.quality.reports import report_of
from apps.trajectories.models import Step
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.django_db


def test_only_the_steps_in_which_a_pair_differs_have_to_be_read():
    queue = builders.queue(items=2, steps=4)
    who = annotator_of(factories.member(Role.ANNOTATOR, of=queue.workspace))
    assert least_seconds(queue) == {}
    judged = builders.judge(queue, who, 1)
    # 3 of 4 steps differ on each side, each with a line of 7 characters (“shelf 1”): 42 characters, 7 words, at 1,000 a minute.
    assert least_seconds(queue) == {judged.item_id: pytest.approx(0.42)}


def test_whoever_is_faster_than_reading_is_hasty_though_everybody_is():
    queue = builders.queue(items=40, steps=3, overlap=2)
    Step.objects.update(headline="x" * 200)  # 2 steps differ on each side: 800 characters take 8 s at the least
    annotators = [annotator_of(factories.member(Role.ANNOTATOR, of=queue.workspace)) for _ in range(2)]
    for who in annotators:
        for _ in range(40):
            held = next_assignment(queue=queue, annotator=who)
            assert held is not None
            record(assignment=held, answer=Choice(1))
    for who, seconds in zip(annotators, (3.0, 9.0), strict=True):  # `record` limits the time to what has passed
        Preference.objects.filter(annotator=who).update(seconds=seconds)
    rows = people_rows(report_of(queue).figures, {str(who.pk): who for who in annotators}, {})
    hasty, calm = sorted(rows, key=lambda row: row.figures["median_seconds"])
    assert (hasty.figures["fast"]["count"], "very fast" in hasty.concerns) == (40, True)
    assert (calm.figures["fast"]["count"], "very fast" in calm.concerns) == (0, False)
