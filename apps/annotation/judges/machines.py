"""How machine annotators do: how far they agree with people, and with themselves when the sides are swapped. Reads only."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from apps.annotation.kinds.pairwise import by_side
from apps.annotation.models import Annotator, Item, Judge, JudgeAnswer, JudgePrompt, Preference, Queue
from apps.annotation.quality.shares import Share, share

SHOWN = 20
SAID = ("item", "strength", "a_left", "b_left", "margin")
COMPARED = 20_000
"""Answers of each judge that are compared with people: the newest."""


@dataclass(frozen=True)
class JudgeRow:
    """A judge and what is known of it."""

    judge: Judge
    prompt: JudgePrompt | None
    with_people: Share
    """Of pairs on which most people prefer one trajectory: how often it does as well."""
    right_on_gold: Share
    steady: Share
    """Of pairs of which it preferred a trajectory in both orders: how often it was the same trajectory. Chance is a half."""
    left: Share
    """Of sides it chose, how often it was the left one."""


def judge_rows(queue: Queue) -> list[JudgeRow]:
    """Those sent to this queue, the newest first."""
    return rows_of(queue, queue.judges.select_related("annotator__policy").order_by("-pk"))


def rows_of(queue: Queue, judges: Iterable[Judge]) -> list[JudgeRow]:
    """What is known of these judges of one queue."""
    judges = list(judges)
    if not judges:
        return []
    majorities = _majorities(queue)
    prompts = {prompt.judge_id: prompt for prompt in JudgePrompt.objects.filter(judge__in=judges).order_by("version")}
    known = {
        item: answer["answer"]
        for item, answer in Item.objects.filter(queue=queue, purpose=Item.Purpose.GOLD).values_list("pk", "known")
        if answer
    }
    place = Window(RowNumber(), partition_by=F("judge"), order_by=F("pk").desc())
    answers = JudgeAnswer.objects.usable().filter(judge__in=judges).annotate(place=place)
    said: dict[UUID, list[Any]] = defaultdict(list)
    for judge_id, *answer in answers.filter(place__lte=COMPARED).values_list("judge", *SAID):
        said[judge_id].append(answer)
    return [_row(judge, prompts.get(judge.pk), said[judge.pk], majorities, known) for judge in judges]


def _majorities(queue: Queue) -> dict[int, int]:
    """Of each item without a known answer that people prefer one trajectory of: which, +1 for a and −1 for b."""
    votes: dict[int, Counter[int]] = defaultdict(Counter)
    people = Preference.objects.standing().filter(
        queue=queue, item__purpose=Item.Purpose.WORK, annotator__kind=Annotator.Kind.PERSON
    )
    for item, strength in people.order_by("-pk").values_list("item", "strength")[: 5 * COMPARED]:
        votes[item][_sign(strength)] += 1
    found = {item: counts[1] - counts[-1] for item, counts in votes.items()}
    return {item: _sign(lead) for item, lead in found.items() if lead}


def _row(
    judge: Judge, prompt: JudgePrompt | None, answers: list[Any], majorities: dict[int, int], known: dict[int, int]
) -> JudgeRow:
    same = of = steady = sided = lefts = sides = right = golds = 0
    for item, strength, a_left, b_left, margin in answers:
        if item in majorities:
            of += 1
            same += _sign(strength) == majorities[item]
        if item in known:
            golds += 1
            right += _sign(strength) == known[item]
        if margin is not None:
            continue  # a reward model knows no sides
        if a_left and b_left:
            sided += 1
            steady += _sign(a_left) == _sign(b_left)
        sides += bool(a_left) + bool(b_left)
        lefts += (a_left > 0) + (b_left < 0)
    return JudgeRow(judge, prompt, share(same, of), share(right, golds), share(steady, sided), share(lefts, sides))


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


@dataclass(frozen=True)
class Said:
    """What a model said of a pair, for somebody who sees sides."""

    annotator: Annotator
    words: str
    reason: str


def said_by_machines(item_id: int, *, a_is_left: bool) -> list[Said]:
    """What models said of a pair."""
    found = JudgeAnswer.objects.usable().filter(item=item_id).select_related("judge__annotator").order_by("pk")
    return [
        Said(each.judge.annotator, by_side(each.strength, each.both_bad, a_was_left=a_is_left), each.reason)
        for each in found
    ]


@dataclass(frozen=True)
class Compared:
    """A judgment of a person beside what models said of the same pair."""

    preference: Preference
    said: str
    machines: list[Said]


def beside_machines(queue: Queue, annotator: Annotator) -> list[Compared]:
    """This person's latest judgments of pairs that models said something about: only what they have answered themselves."""
    spoken = JudgeAnswer.objects.usable().filter(judge__queue=queue)
    mine = Preference.objects.standing().filter(queue=queue, annotator=annotator, item__in=spoken.values("item"))
    latest = list(mine.select_related("item__task").order_by("-pk")[:SHOWN])
    answers: dict[int, list[JudgeAnswer]] = defaultdict(list)
    for answer in spoken.filter(item__in=[each.item_id for each in latest]).select_related("judge__annotator"):
        answers[answer.item_id].append(answer)
    return [
        Compared(
            each,
            by_side(each.strength, each.both_bad, a_was_left=each.a_is_shown_left),
            [
                Said(a.judge.annotator, by_side(a.strength, a.both_bad, a_was_left=each.a_is_shown_left), a.reason)
                for a in answers[each.item_id]
            ],
        )
        for each in latest
    ]
