"""Judgments of single steps, as listed on the page of a run."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.annotation.desk.actions import record
from apps.annotation.kinds.answers import CorrectedAction, InspectionAnswer, Label
from apps.annotation.models import Annotator
from apps.annotation.queries import judgments_of_trajectory
from apps.annotation.review.adjudication import remarks_in
from tests import factories
from tests.annotation import builders
from tests.annotation.desk.test_assignments import take

pytestmark = pytest.mark.django_db


def test_labels_first_errors_and_better_actions_stand_at_their_steps_in_constant_queries():
    member = factories.member()
    queue = builders.queue_of_trajectories(of=member.workspace, overlap=2)
    run = queue.items.get().a_id
    labels = (
        Label(0, 1),
        Label(1, -1, critique="too early"),
        Label(2, -1, is_filled=True),
        Label(3, -1, is_filled=True),
    )
    answer = InspectionAnswer(
        "found_error", 1, labels, (CorrectedAction(1, factories.assistant_message("Look first.")),)
    )
    costs = []
    for name in ("Ada", "Bo"):
        record(assignment=take(queue, factories.annotator(of=member.workspace, name=name, kind="rule")), answer=answer)
        judgments = judgments_of_trajectory(member, run)
        with CaptureQueriesContext(connection) as queries:
            remarks = remarks_in(judgments)
        costs.append(len(queries))
    assert [(r.index, r.text, r.note) for r in remarks if r.annotator == "Ada"] == [
        (0, "good", ""),
        (1, "better action", "Written by the annotator"),
        (1, "first error", "too early"),
    ]
    assert costs[0] == costs[1]


def test_what_an_agents_user_made_of_an_answer_is_not_said_to_be_an_annotators():
    member = factories.member()
    queue = builders.queue_of_trajectories(of=member.workspace)
    run = queue.items.get().a_id
    who = factories.annotator(of=member.workspace, name="shop", kind="rule")
    answer = InspectionAnswer(
        "found_error", 1, (Label(0, 1), Label(1, -1)), (CorrectedAction(1, factories.assistant_message("Look first.")),)
    )
    record(assignment=take(queue, who), answer=answer)
    Annotator.objects.filter(pk=who.pk).update(kind=Annotator.Kind.USER)
    notes = [
        remark.note for remark in remarks_in(judgments_of_trajectory(member, run)) if remark.text == "better action"
    ]
    assert notes == ["What the agent's user made of it"]
