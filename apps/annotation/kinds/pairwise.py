"""Compares two trajectories of one task: a graded choice, stored as a preference."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django import forms
from django.db.models import Q, QuerySet
from rest_framework import serializers

from apps.annotation.kinds import pair_view
from apps.annotation.kinds.answers import Choice, check_answers
from apps.annotation.kinds.forms import AsksForm, JudgmentForm, Option, arrows, question_fields
from apps.annotation.kinds.kind import (
    OF_A_JUDGMENT,
    JudgmentSerializer,
    Kind,
    KnownAnswer,
    PartUrl,
    Submission,
    known_answer_choice,
)
from apps.annotation.kinds.meanings import Info, Meanings, Survey, answers_by_annotator
from apps.annotation.kinds.measures import Gathered, Measure, QuestionMeasures, read
from apps.annotation.kinds.pair_selection import Candidate, Pairing, Preview, draw, preview_of
from apps.annotation.kinds.questions import Asks, PairwiseAsks, fields_of
from apps.annotation.models import Adjudication, Assignment, Item, Preference, Queue
from apps.annotation.refusals import NothingToCompare
from apps.trajectories.models import Trajectory
from contract.questions import Answers

GRADES = {1: "slightly", 2: "clearly", 3: "much"}
BOTH_BAD = "both_bad"
ANSWERS = [
    *((str(grade), f"Left is {GRADES[grade]} better") for grade in (3, 2, 1)),
    ("0", "Tie"),
    *((str(-grade), f"Right is {GRADES[grade]} better") for grade in (1, 2, 3)),
    (BOTH_BAD, "Both are bad"),
]
SCALE: list[tuple[str, tuple[int | str, ...]]] = [
    ("Left is better", (3, 2, 1)),
    ("Neither", (0, BOTH_BAD)),
    ("Right is better", (-1, -2, -3)),
]
"""The answers as grouped at the desk, in the order of their keys."""
KEYS: dict[int | str, str] = {3: "1", 2: "2", 1: "3", 0: "4", -1: "5", -2: "6", -3: "7", BOTH_BAD: "0"}
CONFIDENCE = [("1", "unsure"), ("2", "fairly sure"), ("3", "sure")]
UNMISTAKABLE = {"tie": "0", "both_bad": BOTH_BAD, "bothbad": BOTH_BAD, "tie (bothbad)": BOTH_BAD}
"""Values for pairs that mean the same in every file."""
NAMES_SIDE = re.compile(r"\b(left|right)\b", re.IGNORECASE)
NAMES_OF_SIDES = ("model", "response", "answer", "output", "completion", "assistant", "conversation")


class Grade(NamedTuple):
    """One answer on the desk's scale."""

    value: str
    key: str
    arrows: str
    """Arrows towards the better side; empty for "both bad", which has no side."""
    label: str
    title: str
    checked: bool


def scale(draft: Mapping[str, Any]) -> list[tuple[str, list[Grade]]]:
    """The possible answers by the side they favor, with the draft's answer marked."""
    return [(name, [_grade_on_scale(value, draft.get("answer")) for value in values]) for name, values in SCALE]


def _grade_on_scale(value: int | str, checked: Any) -> Grade:
    grade = value if isinstance(value, int) else None
    label = "both bad" if grade is None else GRADES.get(abs(grade), "tie")
    drawn = "" if grade is None else arrows(grade)
    return Grade(str(value), KEYS[value], drawn, label, dict(ANSWERS)[str(value)], checked == str(value))


class PreferenceForm(JudgmentForm):
    """A judgment of a pair as submitted: in favor of a side."""

    answer = forms.ChoiceField(
        choices=ANSWERS, error_messages={"required": "Choose an answer first: keys 1 to 7, or 0."}
    )
    confidence = forms.TypedChoiceField(choices=CONFIDENCE, coerce=int, empty_value=None, required=False)

    settable = ("confidence",)

    def to_answer(self, assignment: Assignment) -> Choice:
        """The answer in favor of a trajectory: only the server knows which one was on which side."""
        answer = self.cleaned_data["answer"]
        turn = 1 if assignment.a_is_left else -1
        aspects, answers = by_side_or_not(self.asks, self.answered())
        return Choice(
            strength=0 if answer == BOTH_BAD else turn * int(answer),
            both_bad=answer == BOTH_BAD,
            rationale=self.cleaned_data["rationale"],
            aspects={key: turn * grade for key, grade in aspects.items()},
            confidence=self.cleaned_data["confidence"],
            answers=answers,
        )


class PreferenceDraftForm(PreferenceForm):
    """The same form, possibly incomplete."""

    answer = forms.ChoiceField(choices=ANSWERS, required=False)


class PairwiseAsksForm(AsksForm):
    """Questions that can be asked in addition to the preference."""

    confidence = forms.BooleanField(label="Ask for confidence", required=False)


class PreferenceSerializer(JudgmentSerializer[Preference]):
    """A valid judgment of a pair. `strength` is in favor of `a`: 3 much better … 0 tie … -3 `b` much better.

    So are `aspects`, the answers to comparing questions, each on its question's scale; `answers` are those to other questions. `confidence`: 1 unsure, 2 fairly sure, 3 sure.
    """

    a = serializers.UUIDField(source="item.a_id")
    b = serializers.UUIDField(source="item.b_id")

    class Meta:
        model = Preference
        fields = [
            *("id", "item", "task", "a", "b", *OF_A_JUDGMENT),
            *("strength", "both_bad", "aspects", "answers", "confidence", "rationale"),
            *("a_was_left", "guideline_version", "seconds", "created_at"),
        ]
        read_only_fields = fields


class Pairwise(Kind[PairwiseAsks, Choice, Preference]):
    """Which of two trajectories is better, judged without knowing their policies."""

    name = Queue.Kind.PAIRWISE
    noun, plural = "pair", "pairs"
    has_sides, trajectory_names = True, ("Trajectory A", "Trajectory B")
    model, asks, answer = Preference, PairwiseAsks, Choice
    serializer = PreferenceSerializer

    template = "annotation/_pair.html"
    rows_template = "annotation/_rows.html"
    cannot_tell = "I cannot tell which is better"
    form, draft_form = PreferenceForm, PreferenceDraftForm

    def trajectory_context(self, assignment: Assignment, part_url: PartUrl) -> dict[str, Any]:
        return {"pair": pair_view.pair_of(assignment, part_url)}

    def rows_shown(self, assignment: Assignment, part_url: PartUrl, start: int) -> dict[str, Any]:
        return {"rows": pair_view.rows_of(assignment, part_url, start)}

    def trajectory_at(self, assignment: Assignment, side: str) -> Trajectory | None:
        return dict(zip(("left", "right"), pair_view.sides_of(assignment), strict=True)).get(side)

    def answer_bar(self, assignment: Assignment) -> dict[str, Any]:
        asks, draft = self.asked(assignment.queue), assignment.draft
        return {
            "asks": asks,
            "scale": scale(draft),
            "questions": question_fields(asks, draft),
            "questions_title": "Aspects"
            if all(question.type == "comparison" for question in asks.questions)
            else "Questions",
            "confidences": [Option(value, label, str(draft.get("confidence")) == value) for value, label in CONFIDENCE],
        }

    def check(self, answer: Choice, asks: PairwiseAsks, item: Item) -> None:
        """Raises Incomplete. A database constraint checks the range of grades."""
        check_answers(asks, {**answer.aspects, **answer.answers}, {}, needed=0)

    def store(self, submissions: Sequence[Submission[Choice]]) -> list[Preference]:
        preferences = (
            Preference(
                **submission.columns(),
                **vars(submission.answer),
                a_was_left=submission.assignment.a_is_left if submission.has_sides else None,
            )
            for submission in submissions
        )
        return Preference.objects.bulk_create(preferences, batch_size=2000)

    def answer_of(self, judgment: Preference) -> Choice:
        return Choice.of(judgment)

    def draft_of(self, judgment: Preference) -> dict[str, Any]:
        """The draft in favor of a side, as it was submitted."""
        answer = Choice.of(judgment) if judgment.a_was_left else Choice.of(judgment).turned
        return {
            "answer": BOTH_BAD if answer.both_bad else str(answer.strength),
            **fields_of(self.asked(judgment.queue), {**answer.aspects, **answer.answers}),
            "confidence": answer.confidence,
            "rationale": answer.rationale,
        }

    def stance(self, judgment: Choice | Preference) -> int | None:
        return _sign(judgment.strength) or None

    def as_known_answer(self, judgment: Preference) -> KnownAnswer:
        """+1: trajectory a is better, 0: neither, −1: trajectory b. The strength is ignored."""
        return _sign(judgment.strength)

    def gather(self, queue: Queue) -> Gathered:
        better = Measure("better", "Which trajectory is better", range(-3, 4), sides=True)
        questions = QuestionMeasures(self.asked(queue).questions)
        gathered = Gathered([better, *questions.all])
        graded = ["aspects", "answers"] if questions.all else []
        for work, values in read(self.valid_judgments, queue, "strength", "a_was_left", *graded):
            gathered.work.append(work._replace(chose_left=_chose_left(values["strength"], values["a_was_left"])))
            better.add(work, values["strength"])
            if graded:
                questions.add(work, {**values["answers"], **values["aspects"]}, {})
        return gathered

    def chose_left(self, judgment: Preference) -> bool | None:
        return _chose_left(judgment.strength, judgment.a_was_left)

    def judgment_text(self, judgment: Choice | Preference) -> str:
        """“A clearly better”."""
        return _grade(judgment.strength, judgment.both_bad, ("A", "B"))

    def judgment_text_on(self, judgment: Preference, trajectory: UUID) -> str:
        """“clearly worse”."""
        strength = judgment.strength if judgment.item.a_id == trajectory else -judgment.strength
        if judgment.both_bad or not strength:
            return self.judgment_text(judgment)
        return f"{GRADES[abs(strength)]} {'better' if strength > 0 else 'worse'}"

    def judgment_text_by_side(self, judgment: Choice | Preference, *, a_is_left: bool) -> str:
        """“left clearly better”."""
        return by_side(judgment.strength, judgment.both_bad, a_was_left=a_is_left)

    def rationale_by_side(self, judgment: Preference, *, a_is_left: bool) -> str:
        # Models, which judge both orders, give the reason of the first.
        a_was_left = True if judgment.a_was_left is None and not judgment.annotator.source else judgment.a_was_left
        if a_was_left is None:  # judged elsewhere
            return judgment.rationale
        return reason_by_side(judgment.rationale, a_was_left=a_was_left, a_is_left=a_is_left)

    def judgment_text_for_author(self, judgment: Preference) -> str:
        return self.judgment_text_by_side(judgment, a_is_left=judgment.a_is_shown_left)

    def known_answer_text(self, known: KnownAnswer, *, a_is_left: bool | None = None) -> str:
        if known == 0:
            return "neither is better"
        if a_is_left is None:
            return f"trajectory {'A' if known == 1 else 'B'} is better"
        return f"{'left' if (known == 1) == a_is_left else 'right'} is better"

    outcome_decides = Q(a__success=True, b__success=False) | Q(a__success=False, b__success=True)
    outcome_rule = "the trajectory that succeeded is better than the one that failed"

    def known_answer_field(self) -> forms.Field:
        return known_answer_choice([("1", "A is better"), ("0", "Neither is better"), ("-1", "B is better")])

    question_of_review = "Which trajectory is better?"

    def review_choices(self, judgments: Sequence[Preference]) -> list[tuple[str, str]]:
        grades = (3, 2, 1, 0, -1, -2, -3)
        return [*((str(n), by_side(n, False, a_was_left=True).capitalize()) for n in grades), (BOTH_BAD, "Both bad")]

    def decision(self, value: str, *, a_is_left: bool) -> dict[str, Any]:
        strength = 0 if value == BOTH_BAD else int(value) if a_is_left else -int(value)
        return {"strength": strength, "both_bad": value == BOTH_BAD}

    def chosen(self, decision: Adjudication, *, a_is_left: bool) -> str:
        strength = decision.strength or 0
        return BOTH_BAD if decision.both_bad else str(strength if a_is_left else -strength)

    def decision_text(self, decision: Adjudication, judgments: Sequence[Preference], *, a_is_left: bool | None) -> str:
        choice = Choice(decision.strength or 0, decision.both_bad)
        return (
            self.judgment_text(choice) if a_is_left is None else self.judgment_text_by_side(choice, a_is_left=a_is_left)
        )

    def agrees(self, decision: Adjudication, judgment: Preference) -> bool:
        return _sign(decision.strength or 0) == _sign(judgment.strength)

    def decision_text_for(self, judgment: Preference, decision: Adjudication) -> str:
        return by_side(decision.strength or 0, decision.both_bad, a_was_left=judgment.a_is_shown_left)

    def decision_problem(self, decision: Mapping[str, Any]) -> tuple[str, str] | None:
        if decision["upheld"] is not None:
            return "upheld", "A judgment of a pair can't be upheld; give `strength` or `both_bad`."
        if decision["both_bad"] == (decision["strength"] is not None):
            return "strength", "Give a grade from -3 to 3, or `both_bad` without one."
        return None

    takes_models = True
    nothing_to_do = NothingToCompare
    asks_form = PairwiseAsksForm

    def asks_of(self, data: Mapping[str, Any]) -> PairwiseAsks:
        return PairwiseAsks(data["questions"], data["confidence"])

    def preview(self, pairing: Pairing, trajectories: QuerySet[Trajectory]) -> Preview:
        return preview_of(pairing, trajectories)

    def draw(self, pairing: Pairing, task: UUID, candidates: list[Candidate]) -> Iterator[Item]:
        for pair in draw(pairing, task, candidates):
            yield Item(task_id=task, a_id=pair.a, b_id=pair.b, position=pair.shuffled(pairing.seed))

    def pairing_text(self, pairing: Pairing) -> str:
        return str(pairing)

    imported_as = "Which trajectory of a pair is better"
    imported_asks = PairwiseAsks()
    imported_values = ("3", "2", "1", "0", BOTH_BAD, "-1", "-2", "-3")

    def occurs_in(self, survey: Survey) -> bool:
        return survey.sides is not None

    def imported_value_texts(self, sides: tuple[str, str] | None) -> Sequence[str]:
        """Starts with the meaning in favor of the first side, whichever the file names first."""
        return [self.imported_answer_text(_imported(value), sides) for value in self.imported_values]

    def imported(self, meanings: Meanings, info: Info, steps: Sequence[Info]) -> dict[str, Choice]:
        return answers_by_annotator(meanings, info, _imported)

    def imported_answer_text(self, answer: Choice, sides: tuple[str, str] | None) -> str:
        return _grade(answer.strength, answer.both_bad, (called((sides or "AB")[0]), called((sides or "AB")[1])))

    def suggested(self, value: Any, sides: tuple[str, str] | None) -> str:
        if not sides or not isinstance(value, str):
            return ""
        for side, grade in zip(sides, ("2", "-2"), strict=True):
            if value in (f"{noun}_{side}" for noun in NAMES_OF_SIDES) or (value == side and not side.isdecimal()):
                return grade
        return UNMISTAKABLE.get(value.lower(), "")


def by_side_or_not(asks: Asks, answers: Answers) -> tuple[dict[str, int], Answers]:
    """Splits the answers into comparing ones, which favor a side, and all others."""
    sided = {question.key for question in asks.questions if question.type == "comparison"}
    favors = {key: value for key, value in answers.items() if key in sided and isinstance(value, int)}
    return favors, {key: value for key, value in answers.items() if key not in sided}


def called(side: str) -> str:
    """Display name of a side in a file: “answer 1”, “chosen”."""
    return side if len(side) > 1 else f"answer {side}"


def _imported(value: str) -> Choice:
    return Choice(0, both_bad=True) if value == BOTH_BAD else Choice(int(value))


def by_side(strength: int, both_bad: bool, *, a_was_left: bool) -> str:
    """A grade for somebody who saw sides and no names: “left clearly better”."""
    return _grade(strength, both_bad, ("left", "right") if a_was_left else ("right", "left"))


def reason_by_side(reason: str, *, a_was_left: bool, a_is_left: bool) -> str:
    """A reason for somebody who sees these sides, if its author saw those: says so if it names a side that means the other one here."""
    is_turned = a_was_left != a_is_left and NAMES_SIDE.search(reason)
    return f"With the sides swapped: {reason}" if is_turned else reason


def _grade(strength: int, both_bad: bool, names: tuple[str, str]) -> str:
    if both_bad or not strength:
        return "both bad" if both_bad else "tie"
    return f"{names[strength < 0]} {GRADES[abs(strength)]} better"


def _sign(strength: int) -> int:
    return (strength > 0) - (strength < 0)


def _chose_left(strength: int, a_was_left: bool | None) -> bool | None:
    return (strength > 0) == a_was_left if strength and a_was_left is not None else None


PAIRWISE = Pairwise()
