"""Performance of machine annotators: agreement with people, and with themselves when the sides are swapped. Reads only."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber

from apps.annotation.kinds.pairwise import by_side, reason_by_side
from apps.annotation.models import Annotator, Item, Judge, JudgeAnswer, JudgePrompt, Preference, Queue
from apps.annotation.quality.shares import Share, share

SHOWN = 20
ANSWER_COLUMNS = ("item", "strength", "a_left", "b_left", "margin")
COMPARED = 20_000
"""Number of each judge's newest answers to its current prompt that are compared with people's."""


@dataclass(frozen=True)
class JudgeRow:
    """A judge and its figures, which are those of its current prompt: a new one doesn't inherit the agreement of those before."""

    judge: Judge
    prompt: JudgePrompt | None
    with_people: Share
    """Of the pairs on which people prefer one trajectory by majority, the share on which the judge prefers it, too."""
    right_on_gold: Share
    steady: Share
    """Of the pairs on which it preferred a trajectory in both orders, the share with the same one. Chance level is ½."""
    left: Share
    """Of the sides it chose, the share that was on the left."""


def judge_rows(queue: Queue) -> list[JudgeRow]:
    """The judges of this queue, newest first."""
    return rows_of(queue, queue.judges.select_related("annotator__policy").order_by("-pk"))


def rows_of(queue: Queue, judges: Iterable[Judge]) -> list[JudgeRow]:
    """The figures of these judges of one queue."""
    judges = list(judges)
    if not judges:
        return []
    majorities = _majorities(queue)
    prompts = {prompt.judge_id: prompt for prompt in JudgePrompt.objects.filter(judge__in=judges).order_by("version")}
    gold = {
        item: answer["answer"]
        for item, answer in Item.objects.filter(queue=queue, purpose=Item.Purpose.GOLD).values_list("pk", "known")
        if answer
    }
    is_current = Q(margin__isnull=False)  # a reward model has no prompt
    for prompt in prompts.values():
        is_current |= Q(judge=prompt.judge_id, prompt_version=prompt.version)
    row_number = Window(RowNumber(), partition_by=F("judge"), order_by=F("pk").desc())
    answers = JudgeAnswer.objects.usable().filter(is_current, judge__in=judges).annotate(place=row_number)
    by_judge: dict[UUID, list[Any]] = defaultdict(list)
    for judge_id, *answer in answers.filter(place__lte=COMPARED).values_list("judge", *ANSWER_COLUMNS):
        by_judge[judge_id].append(answer)
    return [_row(judge, prompts.get(judge.pk), by_judge[judge.pk], majorities, gold) for judge in judges]


def _majorities(queue: Queue) -> dict[int, int]:
    """The majority preference of people on ordinary items: +1 for a and −1 for b."""
    votes: dict[int, Counter[int]] = defaultdict(Counter)
    people = Preference.objects.valid().filter(
        queue=queue, item__purpose=Item.Purpose.WORK, annotator__kind=Annotator.Kind.PERSON
    )
    for item, strength in people.order_by("-pk").values_list("item", "strength")[: 5 * COMPARED]:
        votes[item][_sign(strength)] += 1
    return {item: side for item, counts in votes.items() if (side := _majority(counts))}


def _majority(votes: Counter[int]) -> int:
    """The side that has more votes than the other one and than ties; 0 if none has."""
    (first, times), *others = votes.most_common(2)
    return first if not others or times > others[0][1] else 0


def _row(
    judge: Judge, prompt: JudgePrompt | None, answers: list[Any], majorities: dict[int, int], gold: dict[int, int]
) -> JudgeRow:
    same = of = steady = sided = lefts = sides = right = golds = 0
    for item, strength, a_left, b_left, margin in answers:
        if item in majorities:
            of += 1
            same += _sign(strength) == majorities[item]
        if item in gold:
            golds += 1
            right += _sign(strength) == gold[item]
        if margin is not None:
            continue  # a reward model doesn't see sides
        if a_left and b_left:
            sided += 1
            steady += _sign(a_left) == _sign(b_left)
        sides += bool(a_left) + bool(b_left)
        lefts += (a_left > 0) + (b_left < 0)
    return JudgeRow(judge, prompt, share(same, of), share(right, golds), share(steady, sided), share(lefts, sides))


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


@dataclass(frozen=True)
class ModelAnswer:
    """A model's answer on a pair, in terms of displayed sides."""

    annotator: Annotator
    text: str
    reason: str


def model_answers(item_id: int, *, a_is_left: bool) -> list[ModelAnswer]:
    """The models' answers on a pair."""
    answers = JudgeAnswer.objects.usable().filter(item=item_id).select_related("judge__annotator").order_by("pk")
    return [_as_displayed(answer, a_is_left=a_is_left) for answer in answers]


def _as_displayed(answer: JudgeAnswer, *, a_is_left: bool) -> ModelAnswer:
    text = by_side(answer.strength, answer.both_bad, a_was_left=a_is_left)
    reason = reason_by_side(answer.reason, a_was_left=True, a_is_left=a_is_left)  # that of the first order
    return ModelAnswer(answer.judge.annotator, text, reason)


@dataclass(frozen=True)
class Compared:
    """A person's judgment next to the models' answers on the same pair."""

    preference: Preference
    text: str
    model_answers: list[ModelAnswer]


def compared_with_models(queue: Queue, annotator: Annotator) -> list[Compared]:
    """This person's latest judgments of pairs that models answered: only pairs they've judged themselves."""
    answered = JudgeAnswer.objects.usable().filter(judge__queue=queue)
    preferences = Preference.objects.valid().filter(queue=queue, annotator=annotator, item__in=answered.values("item"))
    latest = list(preferences.select_related("item__task").order_by("-pk")[:SHOWN])
    answers: dict[int, list[JudgeAnswer]] = defaultdict(list)
    compared_items = [preference.item_id for preference in latest]
    for answer in answered.filter(item__in=compared_items).select_related("judge__annotator"):
        answers[answer.item_id].append(answer)
    return [
        Compared(
            preference,
            by_side(preference.strength, preference.both_bad, a_was_left=preference.a_is_shown_left),
            [_as_displayed(answer, a_is_left=preference.a_is_shown_left) for answer in answers[preference.item_id]],
        )
        for preference in latest
    ]
