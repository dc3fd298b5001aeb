"""Rates a whole trajectory: answers to the queue's questions, a thumb, and marks on steps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django import forms
from django.db.models import Q
from rest_framework import serializers

from apps.annotation.kinds.answers import MarkedStep, Scores, check_answers
from apps.annotation.kinds.forms import (
    AsksForm,
    RowsField,
    TrajectoryForm,
    question_fields,
    rows_of_steps,
    step_index,
    text,
)
from apps.annotation.kinds.kind import (
    MAX_REMARKS,
    OF_A_JUDGMENT,
    KnownAnswer,
    StepRemark,
    Submission,
    known_answer_choice,
)
from apps.annotation.kinds.meanings import Info, Meanings, Survey, answers_by_annotator
from apps.annotation.kinds.measures import Gathered, Measure, QuestionMeasures, read
from apps.annotation.kinds.questions import RatingAsks, answer_texts, fields_of
from apps.annotation.kinds.single_trajectory import SingleTrajectoryKind, SingleTrajectorySerializer
from apps.annotation.models import Assignment, Item, Mark, Queue, Rating
from apps.annotation.refusals import Incomplete


class RatingForm(TrajectoryForm):
    """A rating of a whole trajectory, possibly incomplete; what is missing is reported when it's stored."""

    thumb = forms.TypedChoiceField(choices=[("1", "Up"), ("-1", "Down")], coerce=int, empty_value=None, required=False)
    marks = RowsField(lambda row: _mark(row))

    settable = ("thumb", "marks")

    def to_answer(self, assignment: Assignment) -> Scores:
        data = self.cleaned_data
        marks = {(row["index"], row["kind"]): MarkedStep(**row) for row in data["marks"]}  # of duplicates the later one
        answers = self.answered()
        return Scores(
            answers, data["thumb"], tuple(sorted(marks.values())), data["rationale"], self.answers_of_steps(answers)
        )


class RatingAsksForm(AsksForm):
    """Questions about a whole trajectory."""

    thumb = forms.BooleanField(label="Ask for a thumb up or down", required=False, initial=True)
    marks = forms.BooleanField(
        label="Steps can be marked: sub-goal reached, safety violated", required=False, initial=True
    )


def _mark(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"index": step_index(row), "kind": Mark.Kind(row["kind"]).value, "note": text(row.get("note", ""), 300)}


class MarkSerializer(serializers.ModelSerializer[Mark]):
    """An event marked at one step."""

    class Meta:
        model = Mark
        fields = ["index", "kind", "note"]
        read_only_fields = fields


class RatingSerializer(SingleTrajectorySerializer[Rating]):
    """A rating of a whole trajectory. `answers`: question key -> answer, from 1 up. `thumb`: 1 up, -1 down."""

    marks = MarkSerializer(many=True)

    class Meta:
        model = Rating
        fields = [
            *("id", "item", "task", "trajectory", *OF_A_JUDGMENT, "answers", "step_answers", "thumb", "marks"),
            *("rationale", "guideline_version", "seconds", "created_at"),
        ]
        read_only_fields = fields


class RatingKind(SingleTrajectoryKind[RatingAsks, Scores, Rating]):
    """How good a trajectory is."""

    name = Queue.Kind.RATING
    model, asks, answer = Rating, RatingAsks, Scores
    serializer, nested = RatingSerializer, ("marks",)

    folds_questions = False
    template = "annotation/_rating.html"
    form = draft_form = RatingForm

    def answer_bar(self, assignment: Assignment) -> dict[str, Any]:
        asks, draft = self.asked(assignment.queue), assignment.draft
        return {
            "asks": asks,
            "questions": question_fields(asks, draft),
            "thumb": str(draft.get("thumb") or ""),
            "kept": {name: json.dumps(draft.get(name) or []) for name in ("marks", "step_answers")},
        }

    def check(self, answer: Scores, asks: RatingAsks, item: Item) -> None:
        """Raises Incomplete, with advice, for answers that are missing or weren't asked for."""
        steps = item.a.step_count
        check_answers(asks, answer.answers, answer.step_answers, needed=steps, steps=steps)
        if not asks.questions and asks.thumb and answer.thumb is None:
            raise Incomplete("Choose a thumb first: y for up, n for down.")
        if beyond := [mark.index for mark in answer.marks if mark.index >= steps]:
            raise Incomplete(f"There is no step {beyond[0] + 1}: this trajectory has {steps}.")

    def store(self, submissions: Sequence[Submission[Scores]]) -> list[Rating]:
        ratings = [
            Rating(
                **submission.columns(),
                answers=submission.answer.answers,
                step_answers=submission.answer.step_answers,
                thumb=submission.answer.thumb,
                rationale=submission.answer.rationale,
            )
            for submission in submissions
        ]
        Rating.objects.bulk_create(ratings, batch_size=2000)
        Mark.objects.bulk_create(
            Mark(rating=rating, **vars(mark))
            for rating, submission in zip(ratings, submissions, strict=True)
            for mark in submission.answer.marks
        )
        return ratings

    def answer_of(self, judgment: Rating) -> Scores:
        return Scores.of(judgment)

    def draft_of(self, judgment: Rating) -> dict[str, Any]:
        scores = Scores.of(judgment)
        return {
            **fields_of(self.asked(judgment.queue), scores.answers),
            "step_answers": rows_of_steps(scores.step_answers),
            "thumb": scores.thumb,
            "marks": [asdict(mark) for mark in scores.marks],
            "rationale": scores.rationale,
        }

    def stance(self, judgment: Scores | Rating) -> int | None:
        return judgment.thumb

    def as_known_answer(self, judgment: Rating) -> KnownAnswer:
        """+1: a good trajectory, −1: a bad one, 0: neither, according to `RatingAsks.opinion`."""
        return self.asked(judgment.queue).opinion(judgment.thumb, judgment.answers)

    def gather(self, queue: Queue) -> Gathered:
        questions_asked = self.asked(queue)
        questions = QuestionMeasures(questions_asked.questions)
        thumb = Measure("thumb", "Thumb", (-1, 1))
        gathered = Gathered([*questions.all, *([thumb] if questions_asked.thumb else [])])
        for work, values in read(self.valid_judgments, queue, "answers", "step_answers", "thumb"):
            gathered.work.append(work)
            thumb.add(work, values["thumb"])
            questions.add(work, values["answers"], values["step_answers"])
        # Most answered first: a question that was added late has little data for comparing people.
        gathered.measures.sort(key=lambda measure: -len(measure.answers))
        return gathered

    def judgment_text(self, judgment: Scores | Rating) -> str:
        thumb = {1: ["thumb up"], -1: ["thumb down"]}.get(judgment.thumb or 0, [])
        return ", ".join([*thumb, *answer_texts(judgment.answers)]) or "nothing"

    def known_answer_text(self, known: KnownAnswer, *, a_is_left: bool | None = None) -> str:
        return "it is a good trajectory" if known == 1 else "it is a bad trajectory"

    def remarks(self, judgments: Mapping[UUID, Rating]) -> Iterator[StepRemark]:
        for mark in Mark.objects.filter(rating__in=judgments)[:MAX_REMARKS]:
            tone = "good" if mark.kind == Mark.Kind.SUBGOAL else "bad"
            name = judgments[mark.rating_id].annotator.name
            yield StepRemark(mark.index, mark.get_kind_display().lower(), tone, mark.note, name)

    outcome_decides = Q(a__success__isnull=False)
    outcome_rule = (
        "a trajectory that succeeded is a good one. A rating expresses that by its thumb or, without one, by the half of their scales "
        "the answers lie in"
    )

    def known_answer_field(self) -> forms.Field:
        help_text = "Determined by the thumb or, without one, by answers above or below the middle of their scales."
        return known_answer_choice([("1", "Good"), ("-1", "Bad")], help_text)

    asks_form = RatingAsksForm

    def asks_of(self, data: Mapping[str, Any]) -> RatingAsks:
        return RatingAsks(data["questions"], data["thumb"], data["marks"])

    def asks_problem(self, data: Mapping[str, Any]) -> tuple[str, str] | None:
        if not data.get("questions") and not data.get("thumb"):
            return "questions", "A rating needs a question or a thumb."
        return None

    imported_as = "Whether a trajectory is good"
    imported_asks = RatingAsks(questions=(), marks=False)
    imported_values = ("1", "-1")

    def occurs_in(self, survey: Survey) -> bool:
        return not survey.sides and bool(survey.verdicts)

    def imported_value_texts(self, sides: tuple[str, str] | None) -> Sequence[str]:
        return "good trajectory", "bad trajectory"

    def imported(self, meanings: Meanings, info: Info, steps: Sequence[Info]) -> dict[str, Scores]:
        return answers_by_annotator(meanings, info, lambda value: Scores(thumb=int(value)))

    def imported_answer_text(self, answer: Scores, sides: tuple[str, str] | None) -> str:
        return "good" if answer.thumb == 1 else "bad"

    def opinion(self, values: Mapping[str, Any], asks: Mapping[str, Any]) -> int:
        return self.asks.from_json(asks).opinion(values["thumb"], values["answers"])


RATING = RatingKind()
