"""Step-by-step inspection of a trajectory: labels, the first error, and corrections, stored as an inspection."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import F
from rest_framework import serializers

from apps.accounts.models import Workspace
from apps.annotation.kinds.answers import CorrectedAction, InspectionAnswer, Label
from apps.annotation.kinds.corrections import branch_after, check_corrections
from apps.annotation.kinds.forms import (
    TEXT,
    AsksForm,
    RowsField,
    TrajectoryForm,
    in_order,
    question_fields,
    rows_of_steps,
    step_index,
    text,
)
from apps.annotation.kinds.kind import MAX_REMARKS, OF_A_JUDGMENT, KnownAnswer, StepRemark, Submission
from apps.annotation.kinds.meanings import Info, Meanings, Survey, inspections_by_annotator
from apps.annotation.kinds.measures import AT_ONCE, Gathered, Measure, QuestionMeasures, UnitValue, read
from apps.annotation.kinds.questions import MAX_ALTERNATIVES, Alternatives, StepsAsks, fields_of
from apps.annotation.kinds.single_trajectory import SingleTrajectoryKind, SingleTrajectorySerializer
from apps.annotation.models import Annotator, Assignment, Correction, Inspection, Item, Queue, StepLabel
from apps.annotation.refusals import NoSuchStep
from apps.common.environments import ENVIRONMENTS
from apps.policies.models import Policy
from apps.trajectories.models import Trajectory

NO_ERROR = "none"
ENDINGS = {ending: n for n, ending in enumerate(Inspection.Ending.values)}
LABEL_NAMES = {1: "good", 0: "neutral", -1: "bad"}
TONES = {1: "good", 0: "plain", -1: "bad"}
Ending = Inspection.Ending
ON_THE_DESK = [(value, label) for value, label in Ending.choices if value != Ending.EDITED]
"""The endings available to annotators. EDITED is for an agent's users, who only see and edit its answer."""
ABLE = (Policy.Kind.MODEL, Policy.Kind.ENDPOINT)
"""Policies that can act, and so take over in the middle of a trajectory."""


class InspectionDraftForm(TrajectoryForm):
    """An inspection, possibly incomplete."""

    ending = forms.ChoiceField(choices=ON_THE_DESK, required=False)
    first_error = forms.IntegerField(required=False, min_value=0, max_value=100_000)
    labels = RowsField(lambda row: _label(row))
    corrections = RowsField(lambda row: _correction(row))

    settable = ("corrections",)


class InspectionForm(InspectionDraftForm):
    """A complete inspection."""

    ending = forms.ChoiceField(
        choices=ON_THE_DESK,
        error_messages={"required": "Say how it ended first: x found an error, v solved, b bad task, n give up."},
    )

    def clean_labels(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.cleaned_data["labels"]
        if unlabeled := [row["index"] + 1 for row in rows if row["value"] is None]:
            raise ValidationError(f"Step {unlabeled[0]} has a note but no label: press 1, 2 or 3 there.")
        return rows

    def to_answer(self, assignment: Assignment) -> InspectionAnswer:
        data = self.cleaned_data
        labels = tuple(Label(**row) for row in in_order(data["labels"]))
        corrections = tuple(
            CorrectedAction(row["index"], row["message"], UUID(row["policy"]) if row["policy"] else None)
            for row in in_order(data["corrections"])
        )
        answers = self.answered()
        of_steps = self.answers_of_steps(answers)
        return InspectionAnswer(
            data["ending"], data["first_error"], labels, corrections, data["rationale"], answers, of_steps
        )


def _label(row: Mapping[str, Any]) -> dict[str, Any]:
    if row["value"] not in (-1, 0, 1, None):
        raise ValueError(row["value"])
    return {
        "index": step_index(row),
        "value": row["value"],
        "is_filled": bool(row.get("is_filled")),
        "critique": text(row.get("critique", ""), TEXT),
        "spans": [_span(span) for span in row.get("spans", [])],
    }


def _span(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "part": text(raw["part"], 50),
        "start": int(raw["start"]),
        "quote": text(raw["quote"], TEXT),
        "note": text(raw.get("note", ""), TEXT),
    }


def _correction(row: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(row["message"], dict):
        raise TypeError(row["message"])
    policy = row.get("policy")
    return {"index": step_index(row), "message": row["message"], "policy": str(UUID(policy)) if policy else None}


class StepsAsksForm(AsksForm):
    """Questions in addition to which steps are right."""

    every_step = forms.BooleanField(
        label="Each step needs a label, up to the first error", required=False, initial=True
    )
    corrections = forms.BooleanField(label="Corrections may be written", required=False, initial=True)
    alternatives = forms.ModelChoiceField(
        Policy.objects.none(),
        label="Sample corrections from",
        required=False,
        empty_label="nobody",
        help_text="Annotators may choose among this policy's actions at a step and, if the environment can be restored, see how it continues.",
    )
    alternatives_count = forms.IntegerField(
        label="How many", min_value=1, max_value=MAX_ALTERNATIVES, initial=4, required=False
    )
    alternatives_temperature = forms.FloatField(
        label="Temperature", min_value=0, max_value=2, initial=1.0, required=False
    )

    def __init__(self, *args: Any, workspace: Workspace, **options: Any) -> None:
        super().__init__(*args, workspace=workspace, **options)
        policies = Policy.objects.filter(workspace=workspace, kind__in=ABLE, archived_at=None).order_by("name")
        self.fields["alternatives"].queryset = policies  # type: ignore[attr-defined]  # a model choice has one


class StepLabelSerializer(serializers.ModelSerializer[StepLabel]):
    """A step's label: 1 good, 0 neutral, -1 bad. `is_filled`: filled in from the first error."""

    class Meta:
        model = StepLabel
        fields = ["index", "value", "is_filled", "critique", "spans"]
        read_only_fields = fields


class CorrectionSerializer(serializers.ModelSerializer[Correction]):
    """A better action at one step, in place of the policy's own."""

    class Meta:
        model = Correction
        fields = ["index", "message", "origin", "policy"]
        read_only_fields = fields


class InspectionSerializer(SingleTrajectorySerializer[Inspection]):
    """A step-by-step inspection of a trajectory. `first_error`: index of the first wrong step, if any."""

    labels = StepLabelSerializer(many=True)
    corrections = CorrectionSerializer(many=True)

    class Meta:
        model = Inspection
        fields = [
            *("id", "item", "task", "trajectory", *OF_A_JUDGMENT, "ending", "first_error", "labels"),
            *("answers", "step_answers", "corrections", "rationale", "guideline_version", "seconds", "created_at"),
        ]
        read_only_fields = fields


class Steps(SingleTrajectoryKind[StepsAsks, InspectionAnswer, Inspection]):
    """Which steps of a trajectory are right, and where it first went wrong."""

    name = Queue.Kind.STEPS
    model, asks, answer = Inspection, StepsAsks, InspectionAnswer
    serializer, nested = InspectionSerializer, ("labels", "corrections")

    template = "annotation/_walk.html"
    dialogs = "annotation/_walk_dialogs.html"
    labels_steps = True
    form, draft_form = InspectionForm, InspectionDraftForm

    def answer_bar(self, assignment: Assignment) -> dict[str, Any]:
        asks, draft = self.asked(assignment.queue), assignment.draft
        return {
            "asks": asks,
            "runs_on": asks.alternatives is not None and assignment.item.task.environment in ENVIRONMENTS,
            "questions": question_fields(asks, draft),
            "kept": {name: json.dumps(draft.get(name) or []) for name in ("labels", "corrections", "step_answers")},
        }

    def takes_corrections(self, asks: StepsAsks) -> bool:
        return asks.corrections

    def alternatives(self, asks: StepsAsks) -> Alternatives | None:
        return asks.alternatives

    def check(self, answer: InspectionAnswer, asks: StepsAsks, item: Item) -> None:
        """Raises Incomplete for missing labels and for contradictions, BadAction for invalid corrections."""
        answer.check(asks, steps=item.a.step_count)
        check_corrections(answer.corrections, item.a)

    def store(self, submissions: Sequence[Submission[InspectionAnswer]]) -> list[Inspection]:
        inspections = [
            Inspection(
                **submission.columns(),
                ending=submission.answer.ending,
                first_error=submission.answer.first_error,
                rationale=submission.answer.rationale,
                answers=submission.answer.answers,
                step_answers=submission.answer.step_answers,
            )
            for submission in submissions
        ]
        Inspection.objects.bulk_create(inspections, batch_size=2000)
        inspected = list(zip(inspections, submissions, strict=True))
        labels = (
            StepLabel(inspection=inspection, **vars(label))
            for inspection, submission in inspected
            for label in submission.answer.labels
        )
        StepLabel.objects.bulk_create(labels, batch_size=5000)
        Correction.objects.bulk_create(
            Correction(
                inspection=inspection,
                index=action.index,
                message=action.message,
                origin=action.origin,
                policy_id=action.policy,
                branch_id=branch_after(submission.assignment.item.a, action.index, action.message),
            )
            for inspection, submission in inspected
            for action in submission.answer.corrections
        )
        return inspections

    def answer_of(self, judgment: Inspection) -> InspectionAnswer:
        return InspectionAnswer.of(judgment)

    def draft_of(self, judgment: Inspection) -> dict[str, Any]:
        walk = InspectionAnswer.of(judgment)
        corrections = [
            {**asdict(action), "policy": str(action.policy) if action.policy else None} for action in walk.corrections
        ]
        labels = [asdict(label) for label in walk.labels]
        return {
            **fields_of(self.asked(judgment.queue), walk.answers),
            **{name: getattr(walk, name) for name in ("ending", "first_error", "rationale")},
            "labels": labels,
            "corrections": corrections,
            "step_answers": rows_of_steps(walk.step_answers),
        }

    def stance(self, judgment: InspectionAnswer | Inspection) -> KnownAnswer | None:
        """None for annotators who gave up or call the task bad: they contradict nobody."""
        return NO_ERROR if judgment.ending == Ending.SOLVED else judgment.first_error

    def as_known_answer(self, judgment: Inspection) -> KnownAnswer | None:
        """The index of the first error, or the value for no error."""
        return self.stance(judgment)

    def gather(self, queue: Queue) -> Gathered:
        ending = Measure("ending", "How it ended", range(len(ENDINGS)), ordered=False)
        steps = Measure("steps", "Label of a step", (-1, 0, 1))
        questions = QuestionMeasures(self.asked(queue).questions)
        gathered = Gathered([ending, steps, *questions.all])
        answered = ["answers", "step_answers"] if questions.all else []
        for work, values in read(self.valid_judgments, queue, "ending", *answered):
            gathered.work.append(work)
            ending.add(work, ENDINGS[values["ending"]])
            if answered:
                questions.add(work, values["answers"], values["step_answers"])
        # Labels after a first error are filled in as bad, which nobody chose: they would agree however far apart the errors are. Those before
        # it are filled in as good, which is what a first error implies.
        inspected = StepLabel.objects.filter(
            inspection__queue=queue, inspection__retracted_at=None, inspection__item__purpose="work"
        )
        labels = inspected.exclude(is_filled=True, index__gt=F("inspection__first_error")).order_by("pk")
        rows = labels.values_list("inspection__annotator", "inspection__item", "index", "value")
        for annotator_id, item, index, value in rows.iterator(chunk_size=AT_ONCE):
            steps.answers.append(UnitValue(annotator_id, item, (item, index), value))
        return gathered

    def judgment_text(self, judgment: InspectionAnswer | Inspection) -> str:
        position = "" if judgment.first_error is None else f", step {judgment.first_error + 1}"
        return f"{Ending(judgment.ending).label.lower()}{position}"

    def known_answer_text(self, known: KnownAnswer, *, a_is_left: bool | None = None) -> str:
        return "there is no error" if known == NO_ERROR else f"the first error is step {int(known) + 1}"

    def remarks(self, judgments: Mapping[UUID, Inspection]) -> Iterator[StepRemark]:
        """Skips labels that were filled in from a first error."""
        labels = StepLabel.objects.filter(inspection__in=judgments, is_filled=False).defer("spans")
        for label in labels[:MAX_REMARKS]:
            judgment = judgments[label.inspection_id]
            text = "first error" if judgment.first_error == label.index else LABEL_NAMES[label.value]
            yield StepRemark(label.index, text, TONES[label.value], label.critique, judgment.annotator.name)
        for action in Correction.objects.filter(inspection__in=judgments).defer("message")[:MAX_REMARKS]:
            annotator = judgments[action.inspection_id].annotator
            is_users = annotator.kind == Annotator.Kind.USER
            note = "What the agent's user made of it" if is_users else action.get_origin_display()
            yield StepRemark(action.index, "better action", "attention", note, annotator.name)

    outcome_rule = "An outcome does not say which step is wrong. Give the answers of single items instead."

    def known_answer_field(self) -> forms.Field:
        help_text = "Number of the first step that is wrong, or “none”."
        return forms.CharField(label="Right answer", required=False, max_length=9, help_text=help_text)

    def parse_known_answer(self, value: str) -> KnownAnswer:
        if value != NO_ERROR and not (value.isdecimal() and int(value)):
            raise ValidationError("Give the number of a step, or “none”.")
        return NO_ERROR if value == NO_ERROR else int(value) - 1

    def known_answer_field_value(self, known: KnownAnswer) -> str:
        return str(known + 1) if isinstance(known, int) else known

    def check_known_answer(self, known: KnownAnswer, trajectory: Trajectory) -> None:
        if isinstance(known, int) and known >= trajectory.step_count:
            raise NoSuchStep(known + 1, trajectory.step_count)

    asks_form = StepsAsksForm

    def asks_of(self, data: Mapping[str, Any]) -> StepsAsks:
        alternatives = None
        if policy := data["alternatives"]:
            temperature = data["alternatives_temperature"]
            count = data["alternatives_count"] or 4
            alternatives = Alternatives(policy.pk, count, 1.0 if temperature is None else temperature)
        return StepsAsks(
            questions=data["questions"],
            every_step=data["every_step"],
            corrections=data["corrections"],
            alternatives=alternatives,
        )

    imported_as = "Which steps are right"
    imported_asks = StepsAsks(corrections=False)
    imported_values = ("1", "0", "-1")

    def occurs_in(self, survey: Survey) -> bool:
        return not survey.sides and bool(survey.labels or survey.indexes)

    def imported_value_texts(self, sides: tuple[str, str] | None) -> Sequence[str]:
        return "good step", "neutral step", "bad step"

    def imported(self, meanings: Meanings, info: Info, steps: Sequence[Info]) -> dict[str, InspectionAnswer]:
        return inspections_by_annotator(meanings, info, steps)

    def imported_answer_text(self, answer: InspectionAnswer, sides: tuple[str, str] | None) -> str:
        if answer.first_error is None:
            return "no wrong step"
        return f"step {answer.first_error + 1} of {len(answer.labels)} is the first wrong one"

    def points_at(self, answer: InspectionAnswer) -> int | None:
        return answer.first_error

    def opinion(self, values: Mapping[str, Any], asks: Mapping[str, Any]) -> int:
        return {Ending.SOLVED: 1, Ending.FOUND_ERROR: -1}.get(values["ending"], 0)


STEPS = Steps()
