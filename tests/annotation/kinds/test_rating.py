import pytest

from apps.annotation.desk.actions import record, undo_last
from apps.annotation.kinds.answers import MarkedStep, Scores
from apps.annotation.kinds.questions import Question, RatingAsks
from apps.annotation.models import Item, Queue, Rating
from apps.annotation.refusals import AlreadyJudged, Incomplete
from tests.annotation import builders
from tests.annotation.desk.test_assignments import take

pytestmark = pytest.mark.django_db
ASKS = RatingAsks((Question("polite", "Was it polite?"), Question("fast", "Was it fast?", points=3, required=False)))
SCORES = Scores({"polite": 4, "fast": 1}, 1, (MarkedStep(1, "subgoal", "lamp found"), MarkedStep(2, "soft_violation")))


@pytest.fixture
def queue() -> Queue:
    return builders.queue_of_trajectories(Queue.Kind.RATING, asks=ASKS, overlap=2)


@pytest.fixture
def annotator(queue: Queue):
    return builders.rule(of=queue.workspace)


def test_a_rating_keeps_answers_thumb_and_marks(queue, annotator):
    assignment = take(queue, annotator)
    record(assignment=assignment, answer=SCORES)
    assert Scores.of(Rating.objects.get()) == SCORES
    record(assignment=assignment, answer=SCORES)
    with pytest.raises(AlreadyJudged):
        record(assignment=assignment, answer=Scores({"polite": 5}))
    assert undo_last(queue=queue, annotator=annotator).draft["question.polite"] == 4


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (Scores({"fast": 3}), "Answer “Was it polite\\?” first."),
        (Scores({"polite": 6}), "“polite” cannot be answered with 6"),
        (Scores({"polite": 1, "kind": 1}), "“kind” cannot be answered"),
        (Scores({"polite": 1}, marks=(MarkedStep(4, "subgoal"),)), "There is no step 5"),
    ],
)
def test_what_is_missing_or_was_not_asked_is_said(queue, annotator, scores, words):
    with pytest.raises(Incomplete, match=words):
        record(assignment=take(queue, annotator), answer=scores)


def test_opposite_thumbs_are_a_dispute(queue):
    for thumb in (1, -1):
        scores = Scores({"polite": 3}, thumb)
        record(assignment=take(queue, builders.rule(of=queue.workspace)), answer=scores)
    assert Item.objects.get().disputed


def test_answers_that_cancel_out_on_scales_of_different_lengths_favor_neither():
    asks = RatingAsks(tuple(Question(f"q{points}", "How good?", points) for points in (2, 4, 7)))
    assert asks.opinion(None, {"q2": 2, "q4": 2, "q7": 2}) == 0
