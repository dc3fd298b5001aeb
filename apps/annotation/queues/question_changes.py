"""Changes the questions of a queue that has answers: an answered question keeps its meaning."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.db.models import BooleanField, Func, QuerySet, Value

from apps.annotation.kinds import kind_of
from apps.annotation.kinds.questions import Asks
from apps.annotation.models import Queue
from apps.annotation.refusals import Refusal
from contract import jsontext
from contract.questions import Question


class BadAsks(Refusal):
    code = "bad_asks"


FIXED_PROPERTIES: dict[str, str] = {
    "name": "its text",
    "type": "its type",
    "points": "its points",
    "low": "what 1 means",
    "high": "what the maximum means",
    "per": "whether it's asked of items or steps",
}
"""Properties that a question with answers can't change, as text."""


def version_of(asks: Asks) -> str:
    """Changes with every change of the questions, so that of two tabs editing them the second gets a conflict."""
    return hashlib.sha256(jsontext.canonical([question.to_json() for question in asks.questions])).hexdigest()[:16]


def answered(queue: Queue, questions: Sequence[Question]) -> dict[str, int]:
    """The number of valid judgments that answer each question; unanswered ones are left out."""
    counts = {question.key: _answering(queue, question).count() for question in questions}
    return {key: count for key, count in counts.items() if count}


def _answering(queue: Queue, question: Question) -> QuerySet[Any]:
    rows = kind_of(queue).valid_judgments.filter(queue=queue)
    if question.per == "step":
        exists = "jsonb_path_exists(%(expressions)s::jsonpath)"
        return rows.filter(
            Func("step_answers", Value(f'$.*."{question.key}"'), template=exists, output_field=BooleanField())
        )
    column = "aspects" if question.type == "comparison" else "answers"
    return rows.filter(**{f"{column}__has_key": question.key})


def with_questions(queue: Queue, questions: Sequence[Question] | None, seen: str) -> dict[str, Any]:
    """`queue`'s `asks` with these questions in place of the current ones. Raises BadAsks, saying what can't change."""
    asks: Asks = kind_of(queue).asked(queue)
    if questions is None or tuple(questions) == asks.questions:
        return dict(queue.asks)
    changed = replace(asks, questions=tuple(questions))
    if seen != version_of(asks):
        raise BadAsks("Somebody changed these questions meanwhile. Reload the page and make your change again.")
    after = {question.key: question for question in questions}
    for key, count in answered(queue, asks.questions).items():
        before = next(question for question in asks.questions if question.key == key)
        refuse(before, after.get(key), count)
    return changed.to_json()


def refuse(before: Question, after: Question | None, count: int) -> None:
    """Raises BadAsks for a change that isn't allowed, given the number of judgments that answer the question."""
    have = f"“{before.name}” has {count:,} answer{'s' if count > 1 else ''}"
    if after is None:
        raise BadAsks(f"{have}, so it can't be removed. It can become optional.")
    for name, property_name in FIXED_PROPERTIES.items():
        if getattr(before, name) != getattr(after, name):
            raise BadAsks(
                f"{have}, so {property_name} can't change: the answers refer to the question as it was asked. Add another question instead."
            )
    if removed := [option for option in before.options if option not in after.options]:
        raise BadAsks(f"{have}, so its option “{removed[0]}” can't be renamed or removed. Options can be added.")
