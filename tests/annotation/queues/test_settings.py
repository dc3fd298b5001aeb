"""Asking for more aspects and questions than a queue began with."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role, Workspace
from apps.annotation.desk.actions import record
from apps.annotation.kinds.answers import Choice, Scores
from apps.annotation.kinds.questions import Aspect, PairwiseAsks, Question, RatingAsks, UnreadableLine
from apps.annotation.models import Queue
from apps.annotation.quality.reports import gather
from apps.annotation.refusals import Incomplete
from tests import factories
from tests.annotation import making
from tests.annotation.desk.test_assignments import take

pytestmark = pytest.mark.django_db
SUCCESS, SAFETY = Aspect("success", "Success"), Aspect("safety", "Safety", 3)
SETTINGS = {"name": "Runs", "who": "all", "gold_percent": 0, "lease_minutes": 5, "overlap": 2}


@pytest.fixture
def workspace() -> Workspace:
    return factories.workspace()


@pytest.fixture
def researcher(workspace: Workspace, client: Client) -> Client:
    client.force_login(factories.member(Role.RESEARCHER, of=workspace).user)
    return client


def address(queue: Queue) -> str:
    return reverse("annotation:settings", args=[queue.pk])


def test_what_is_added_stands_behind_what_is_asked():
    assert PairwiseAsks((SUCCESS,)).with_more("Safety: 3").aspects == (SUCCESS, SAFETY)
    with pytest.raises(UnreadableLine, match="“success” already exists"):
        PairwiseAsks((SUCCESS,)).with_more("success: 7")


def test_an_aspect_added_later_is_measured_by_who_graded_it(researcher, workspace):
    queue = making.queue(of=workspace, overlap=2, steps=0, asks=PairwiseAsks((SUCCESS,)))
    before = making.rule(of=workspace)
    record(assignment=take(queue, before), answer=Choice(1, aspects={"success": 2}))
    assert "can be neither renamed nor taken away: Success." in researcher.get(address(queue)).content.decode()
    assert researcher.post(address(queue), {**SETTINGS, "more_asks": "Safety: 3"}).status_code == 302
    queue.refresh_from_db()
    assert PairwiseAsks.from_json(queue.asks) == PairwiseAsks((SUCCESS, SAFETY))
    after = making.rule(of=workspace)
    record(assignment=take(queue, after), answer=Choice(1, aspects={"success": 2, "safety": -1}))
    graded = {measure.name: [given.annotator for given in measure.given] for measure in gather(queue).measures}
    assert graded == {
        "Which trajectory is better": [before.pk, after.pk],
        "Success": [before.pk, after.pk],
        "Safety": [after.pk],
    }


def test_a_question_added_while_a_run_is_rated_is_asked_for_and_people_are_compared_by_the_older_one(
    researcher, workspace
):
    queue = making.queue_of_runs(Queue.Kind.RATING, of=workspace, items=2, overlap=2, asks=RatingAsks())
    who = making.rule(of=workspace)
    record(assignment=take(queue, who), answer=Scores({}, 1))
    held = take(queue, who)
    researcher.post(address(queue), {**SETTINGS, "more_asks": "Was it polite? | 3 | no | yes"})
    queue.refresh_from_db()
    assert RatingAsks.from_json(queue.asks).questions == (Question("was-it-polite", "Was it polite?", 3, "no", "yes"),)
    held.queue = queue
    with pytest.raises(Incomplete, match=r"“Was it polite\?” first\. Where it is not on the page, reload"):
        record(assignment=held, answer=Scores({}, 1))
    record(assignment=held, answer=Scores({"was-it-polite": 3}, 1))
    measured = [(measure.name, len(measure.given)) for measure in gather(queue).measures]
    assert measured == [("Thumb", 2), ("Was it polite?", 1)]


def test_what_is_no_aspect_or_is_asked_already_is_said(researcher, workspace):
    queue = making.queue(of=workspace, overlap=2, steps=0, asks=PairwiseAsks((SUCCESS,)))
    for lines, words in (("Safety: 4", "expected 3, 5 or 7 points"), ("Success", "“Success” already exists")):
        answer = researcher.post(address(queue), {**SETTINGS, "more_asks": lines})
        assert answer.status_code == 422
        assert words in answer.content.decode()
    assert PairwiseAsks.from_json(Queue.objects.get().asks) == PairwiseAsks((SUCCESS,))


def test_a_queue_of_step_labels_has_nothing_to_add(researcher, workspace):
    queue = making.queue_of_runs(of=workspace)
    assert "more_asks" not in researcher.get(address(queue)).content.decode()
