"""Recording how somebody rated a run as a whole."""

from django.db import transaction

from apps.annotation.asking import RatingAsks
from apps.annotation.desk.answers import Scores
from apps.annotation.desk.concluding import columns_of, conclude, expect_kind, hold, locked
from apps.annotation.models import Assignment, Mark, Queue, Rating
from apps.annotation.refusals import AlreadyJudged, Incomplete


@transaction.atomic
def record_rating(
    *, assignment: Assignment, scores: Scores, seconds: float = 0.0, guideline_version: int = 0
) -> Rating:
    """Store the answers, the thumb and the marks, and close the assignment.

    The same answer again is answered as the first time; another one raises AlreadyJudged. Incomplete says which question
    is open. Leases are as with preferences.
    """
    expect_kind(assignment, Queue.Kind.RATING)
    desk, held = locked(assignment)
    if held.state == Assignment.State.JUDGED:
        if Scores.of(held.rating) != scores:
            raise AlreadyJudged
        return held.rating
    hold(held)
    check_scores(scores, RatingAsks.from_json(assignment.queue.asks), steps=held.item.a.step_count)
    rating = Rating.objects.create(
        **columns_of(held, seconds=seconds, guideline_version=guideline_version),
        answers=scores.answers,
        thumb=scores.thumb,
        rationale=scores.rationale,
    )
    Mark.objects.bulk_create(Mark(rating=rating, **vars(mark)) for mark in scores.marks)
    conclude(desk, held, rating)
    return rating


def check_scores(scores: Scores, asks: RatingAsks, *, steps: int) -> None:
    """Raises Incomplete, saying what to do, for answers that the queue did not ask for or still wants."""
    questions = {question.key: question for question in asks.questions}
    for key, answer in scores.answers.items():
        if key not in questions or answer not in questions[key].scale:
            raise Incomplete(f"“{key}” cannot be answered with {answer} in this queue. Reload the page.")
    if open_ones := [each.name for each in asks.questions if each.required and each.key not in scores.answers]:
        raise Incomplete(
            f"Answer “{open_ones[0]}” first. Where it is not on the page, reload: it has been added since."
        )
    if not asks.questions and asks.thumb and scores.thumb is None:
        raise Incomplete("Choose a thumb first: y is up, n is down.")
    if beyond := [mark.index for mark in scores.marks if mark.index >= steps]:
        raise Incomplete(f"There is no step {beyond[0] + 1}: this run has {steps}.")
