"""A judgement that was taken back, as the unfinished answer that its author finds on the desk again."""

from dataclasses import asdict
from typing import Any

from apps.annotation.asking import aspect_field, question_field
from apps.annotation.desk.answers import Scores, Walk
from apps.annotation.models import Inspection, Judgement, Preference, Rating


def draft_of(judgement: Judgement) -> dict[str, Any]:
    """What the desk's form for this kind of judgement would have sent."""
    match judgement:
        case Preference():
            answer = _of_preference(judgement)
        case Inspection():
            answer = _of_walk(Walk.of(judgement))
        case Rating():
            answer = _of_scores(Scores.of(judgement))
        case _:
            raise TypeError(judgement)
    return {**answer, "seconds": judgement.seconds}


def _of_preference(preference: Preference) -> dict[str, Any]:
    """In favour of a side, as it was answered."""
    turn = 1 if preference.a_was_left else -1
    return {
        "answer": "both_bad" if preference.both_bad else str(turn * preference.strength),
        **{aspect_field(key): turn * grade for key, grade in preference.aspects.items()},
        "confidence": preference.confidence,
        "rationale": preference.rationale,
    }


def _of_walk(walk: Walk) -> dict[str, Any]:
    corrections = [
        {"index": each.index, "message": each.message, "policy": str(each.policy) if each.policy else None}
        for each in walk.corrections
    ]
    return {
        "ending": walk.ending,
        "first_error": walk.first_error,
        "labels": [asdict(label) for label in walk.labels],
        "corrections": corrections,
        "rationale": walk.rationale,
    }


def _of_scores(scores: Scores) -> dict[str, Any]:
    return {
        **{question_field(key): answer for key, answer in scores.answers.items()},
        "thumb": scores.thumb,
        "marks": [asdict(mark) for mark in scores.marks],
        "rationale": scores.rationale,
    }
