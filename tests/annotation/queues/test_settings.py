"""Changing a queue's questions while people answer them."""

import json
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import Role, Workspace
from apps.annotation.desk.actions import record
from apps.annotation.kinds.answers import Choice, InspectionAnswer, Scores
from apps.annotation.kinds.questions import PairwiseAsks, Question, RatingAsks, StepsAsks, comparison
from apps.annotation.models import Queue
from apps.annotation.quality.reports import gather
from apps.annotation.queues import settings
from apps.annotation.queues.question_changes import version_of
from apps.annotation.refusals import Incomplete
from tests import factories
from tests.annotation import builders
from tests.annotation.desk.test_assignments import take

pytestmark = pytest.mark.django_db
SUCCESS, SAFETY = comparison("success", "Success"), comparison("safety", "Safety", 3)
POLITE = Question("was-it-polite", "Was it polite?", 3, "no", "yes")
CAUSE = Question("cause", "Why?", type="choice", options=("a tool", "the plan"))
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


def asking(asks: Any, *questions: dict[str, Any] | Question) -> dict[str, Any]:
    """Form data with these questions instead of those in `asks`, which the form was opened with."""
    rows = [question.to_json() if isinstance(question, Question) else question for question in questions]
    return {**SETTINGS, "questions": json.dumps(rows), "questions_seen": version_of(asks)}


def test_of_two_tabs_the_second_overwrites_nothing(researcher, workspace):
    queue = builders.queue(of=workspace, overlap=2, steps=0)
    opened = re.search(r'name="seen" value="(\w+)"', researcher.get(address(queue)).content.decode())[1]
    person = factories.member(Role.ANNOTATOR, of=workspace).user
    first = {**SETTINGS, "seen": opened, "who": "named", "labelers": [person.pk]}
    assert researcher.post(address(queue), first).status_code == 302
    second = researcher.post(address(queue), {**SETTINGS, "seen": opened, "name": "Walks"})
    assert "Somebody changed these settings meanwhile" in second.content.decode()
    queue.refresh_from_db()
    assert (queue.name, queue.is_restricted, list(queue.labelers.all())) == ("Runs", True, [person])


def test_an_aspect_added_later_is_measured_by_who_graded_it(researcher, workspace):
    asks = PairwiseAsks((SUCCESS,))
    queue = builders.queue(of=workspace, overlap=2, steps=0, asks=asks)
    before = builders.rule(of=workspace)
    record(assignment=take(queue, before), answer=Choice(1, aspects={"success": 2}))
    assert researcher.post(address(queue), asking(asks, SUCCESS, SAFETY)).status_code == 302
    queue.refresh_from_db()
    assert PairwiseAsks.from_json(queue.asks) == PairwiseAsks((SUCCESS, SAFETY))
    after = builders.rule(of=workspace)
    record(assignment=take(queue, after), answer=Choice(1, aspects={"success": 2, "safety": -1}))
    graded = {measure.name: [answer.annotator for answer in measure.answers] for measure in gather(queue).measures}
    assert graded == {
        "Which trajectory is better": [before.pk, after.pk],
        "Success": [before.pk, after.pk],
        "Safety": [after.pk],
    }


def test_a_question_added_while_a_run_is_rated_is_asked_for_and_people_are_compared_by_the_older_one(
    researcher, workspace
):
    queue = builders.queue_of_trajectories(Queue.Kind.RATING, of=workspace, items=2, overlap=2, asks=RatingAsks())
    who = builders.rule(of=workspace)
    record(assignment=take(queue, who), answer=Scores({}, 1))
    held = take(queue, who)
    researcher.post(address(queue), asking(RatingAsks(), POLITE))
    queue.refresh_from_db()
    assert RatingAsks.from_json(queue.asks).questions == (POLITE,)
    held.queue = queue
    with pytest.raises(Incomplete, match=r"“Was it polite\?” first\. If it isn't on the page, reload"):
        record(assignment=held, answer=Scores({}, 1))
    record(assignment=held, answer=Scores({"was-it-polite": 3}, 1))
    measured = [(measure.name, len(measure.answers)) for measure in gather(queue).measures]
    assert measured == [("Thumb", 2), ("Was it polite?", 1)]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ([], "“Was it polite?” has 1 answer, so it can&#x27;t be removed"),
        ([{**POLITE.to_json(), "name": "Polite?"}], "so its text can&#x27;t change"),
        ([{**POLITE.to_json(), "points": 5}], "so its points can&#x27;t change"),
        (
            [POLITE, {**CAUSE.to_json(), "options": ["a tool", "bad luck"]}],
            "its option “the plan” can&#x27;t be renamed",
        ),
        ([POLITE, CAUSE, POLITE], "is “was-it-polite”, like that of “Was it polite?”"),
    ],
)
def test_what_was_answered_stays_as_it_was_asked(researcher, workspace, question, words):
    asks = RatingAsks((POLITE, CAUSE))
    queue = builders.queue_of_trajectories(Queue.Kind.RATING, of=workspace, overlap=2, asks=asks)
    record(assignment=take(queue, builders.rule(of=workspace)), answer=Scores({"was-it-polite": 3, "cause": "a tool"}))
    page = researcher.get(address(queue)).content.decode()
    assert "A question that has answers can't be removed" in page
    answer = researcher.post(address(queue), asking(asks, *question))
    assert answer.status_code == 422
    assert words in answer.content.decode()
    queue.refresh_from_db()
    assert RatingAsks.from_json(queue.asks) == asks


def test_order_what_is_required_and_more_options_may_change_and_what_nobody_answered_may_go(researcher, workspace):
    open_ = Question("else", "Anything else?", type="text", required=False)
    asks = RatingAsks((POLITE, CAUSE, open_))
    queue = builders.queue_of_trajectories(Queue.Kind.RATING, of=workspace, overlap=2, asks=asks)
    record(assignment=take(queue, builders.rule(of=workspace)), answer=Scores({"was-it-polite": 3, "cause": "a tool"}))
    more = {**CAUSE.to_json(), "options": ["bad luck", "a tool", "the plan"], "required": False}
    assert researcher.post(address(queue), asking(asks, more, POLITE)).status_code == 302
    queue.refresh_from_db()
    changed = Question("cause", "Why?", type="choice", options=("bad luck", "a tool", "the plan"), required=False)
    assert RatingAsks.from_json(queue.asks).questions == (changed, POLITE)


def test_an_answer_at_a_step_keeps_its_question_too(researcher, workspace):
    asks = StepsAsks(questions=(Question("cause", "Why?", type="choice", options=("a", "b"), per="step"),))
    queue = builders.queue_of_trajectories(of=workspace, overlap=2, asks=asks)
    walk = InspectionAnswer("give_up", step_answers={"1": {"cause": "b"}})
    record(assignment=take(queue, builders.rule(of=workspace)), answer=walk)
    assert "“Why?” has 1 answer" in researcher.post(address(queue), asking(asks)).content.decode()


def test_the_second_of_two_tabs_is_told_of_the_first(researcher, workspace):
    queue = builders.queue_of_trajectories(Queue.Kind.RATING, of=workspace, overlap=2, asks=RatingAsks())
    assert researcher.post(address(queue), asking(RatingAsks(), POLITE)).status_code == 302
    late = researcher.post(address(queue), asking(RatingAsks(), CAUSE))
    assert late.status_code == 422
    assert "Somebody changed these questions meanwhile" in late.content.decode()
    queue.refresh_from_db()
    assert RatingAsks.from_json(queue.asks).questions == (POLITE,)
    assert researcher.post(address(queue), SETTINGS).status_code == 302  # a form without questions doesn't change them


def test_ended_queues_of_a_workspace_leave_the_chores_time_for_others(workspace, monkeypatch):
    monkeypatch.setattr(settings, "TURN_SECONDS", 0.0)
    other = factories.workspace()
    for each in (workspace, workspace, workspace, other):
        builders.queue(of=each, steps=0)
    Queue.objects.update(ends_at=now())
    for left in (2, 1, 0):
        settings.close_ended()
        assert Queue.objects.open().filter(workspace=workspace).count() == left
        assert not Queue.objects.open().filter(workspace=other).exists()
