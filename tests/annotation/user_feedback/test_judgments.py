"""Users' feedback becomes judgments of the kind "user" and dataset rows, but isn't part of annotators' agreement."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Membership, Role
from apps.annotation.models import Adjudication, Annotator, Desk, Inspection, Item, Queue, Rating
from apps.annotation.quality import reports
from apps.annotation.review.adjudication import adjudicate
from apps.annotation.user_feedback import judgments
from apps.annotation.user_feedback.judgments import judge_feedback
from apps.common.ids import new_id
from apps.datasets import freezing
from apps.datasets.recipe import Recipe
from apps.gateway import sessions
from apps.gateway.feedback import record_feedback
from apps.gateway.models import Call, Feedback, Session
from tests import factories
from tests.accounts.clients import as_, body_of

pytestmark = pytest.mark.django_db
SAID = [{"role": "assistant", "content": "In the kitchen."}, {"role": "assistant", "content": "On the shelf."}]


@pytest.fixture
def owner() -> Membership:
    return factories.member(Role.OWNER)


@pytest.fixture
def session(owner: Membership) -> Session:
    return factories.session(of=owner.workspace, messages=SAID)


def test_a_thumb_waits_for_the_end_of_the_session_and_is_judged_once(session: Session) -> None:
    record_feedback(session=session, thumb=-1, comment="Wrong room.")
    judge_feedback()
    assert not Rating.objects.exists()
    sessions.finish_session(session=session)
    judge_feedback()
    judge_feedback()
    [rating] = Rating.objects.all()
    assert (rating.thumb, rating.rationale, rating.annotator.kind, rating.annotator.name) == (
        -1,
        "Wrong room.",
        "user",
        "Users",
    )
    assert rating.item.a.session_path.session == session
    assert (rating.queue.name, rating.queue.state, rating.queue.item_count) == ("Feedback from users", "closed", 1)


def test_feedback_in_a_workspace_leaves_the_chores_time_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judgments, "TURN_SECONDS", 0.0)
    crowded, other = factories.workspace(), factories.workspace()
    for workspace in (crowded, crowded, crowded, other):
        session = factories.session(of=workspace, messages=SAID)
        sessions.finish_session(session=session)
        record_feedback(session=session, thumb=1)
    for left in (2, 1, 0):
        judge_feedback()
        assert Feedback.objects.filter(session__workspace=crowded, judged_at=None).count() == left
        assert not Feedback.objects.filter(session__workspace=other, judged_at=None).exists()


def test_the_latest_of_each_counts(session: Session) -> None:
    sessions.finish_session(session=session)
    record_feedback(session=session, thumb=1)
    record_feedback(session=session, comment="Thanks.")
    judge_feedback()
    record_feedback(session=session, thumb=-1)
    judge_feedback()
    assert [(rating.thumb, rating.rationale) for rating in Rating.objects.valid()] == [(-1, "Thanks.")]
    assert Rating.objects.count() == 2
    assert (Item.objects.get().judged, Queue.objects.get().item_count) == (1, 1)


def test_a_decision_goes_with_the_thumb_that_it_upheld(session: Session, owner: Membership) -> None:
    sessions.finish_session(session=session)
    record_feedback(session=session, thumb=1)
    judge_feedback()
    rating = Rating.objects.get()
    adjudicate(item=rating.item, by=owner.user, upheld=rating.pk, reason="It did what was asked.")
    record_feedback(session=session, thumb=-1)
    judge_feedback()
    assert not Adjudication.objects.valid().exists()


def test_sessions_of_a_workspace_share_its_queues_and_its_annotator(owner: Membership) -> None:
    for _ in range(3):
        session = factories.session(of=owner.workspace, messages=SAID)
        record_feedback(session=session, thumb=1, edited="By the door.")
        sessions.finish_session(session=session)
    elsewhere = factories.session(messages=SAID)
    record_feedback(session=elsewhere, thumb=1)
    sessions.finish_session(session=elsewhere)
    judge_feedback()
    own = Queue.objects.filter(workspace=owner.workspace)
    assert sorted(own.values_list("name", "item_count")) == [("Answers edited by users", 3), ("Feedback from users", 3)]
    assert Annotator.objects.filter(workspace=owner.workspace).count() == 1


def test_an_edited_answer_corrects_the_call_that_it_names_or_the_last_one(session: Session, owner: Membership) -> None:
    first = Call.objects.filter(session=session).order_by("id").first()
    assert first is not None
    record_feedback(session=session, edited="In the hall.", call_id=first.pk)
    sessions.finish_session(session=session)
    judge_feedback()
    other = factories.session(of=owner.workspace, messages=SAID)
    record_feedback(session=other, edited="By the door.")
    sessions.finish_session(session=other)
    judge_feedback()
    corrections = [
        (
            inspection.ending,
            inspection.first_error,
            inspection.labels.count(),
            *inspection.corrections.values_list("index", "message"),
        )
        for inspection in Inspection.objects.order_by("pk")
    ]
    assert corrections == [
        ("edited", None, 0, (0, {"content": "In the hall."})),
        ("edited", None, 0, (1, {"content": "By the door."})),
    ]


def corrected() -> list[tuple[Any, int]]:
    return [
        (made.item.a_id, step)
        for made in Inspection.objects.valid()
        for step in made.corrections.values_list("index", flat=True)
    ]


def test_an_edited_answer_that_names_no_call_corrects_the_one_seen_by_then(session: Session) -> None:
    record_feedback(session=session, edited="By the door.")
    factories.call(
        of=session, parent=session.calls.latest("id"), message={"role": "assistant", "content": "It's red."}, number=7
    )
    sessions.finish_session(session=session)
    judge_feedback()
    main = session.paths.get(is_main=True).trajectory
    assert main.step_count == 3
    assert corrected() == [(main.pk, 1)]


def test_an_edited_answer_corrects_its_call_on_any_path(session: Session) -> None:
    helper = factories.call(of=session, message={"role": "assistant", "content": "Searched."}, number=7)
    record_feedback(session=session, edited="Searched all.", call_id=helper.pk)
    sessions.finish_session(session=session)
    judge_feedback()
    assert corrected() == [(session.paths.get(is_main=False).trajectory_id, 0)]
    record_feedback(session=session, edited="By the door.")
    judge_feedback()
    assert corrected() == [(session.paths.get(is_main=True).trajectory_id, 1)]
    assert list(Item.objects.order_by("position").values_list("judged", flat=True)) == [0, 1]
    assert Desk.objects.get().judged == 1


def test_a_judgment_that_new_feedback_doesnt_change_stays(session: Session) -> None:
    record_feedback(session=session, thumb=1, edited="By the door.")
    sessions.finish_session(session=session)
    judge_feedback()
    record_feedback(session=session, thumb=-1)
    judge_feedback()
    assert (Inspection.objects.count(), Rating.objects.count()) == (1, 2)
    record_feedback(session=session, edited="By the window.")
    judge_feedback()
    assert (Inspection.objects.count(), Inspection.objects.valid().count(), Rating.objects.count()) == (2, 1, 2)


def test_an_edited_answer_whose_call_is_in_no_trajectory_corrects_no_other(session: Session) -> None:
    failed = factories.call(of=session, message=SAID[0])
    Call.objects.filter(pk=failed.pk).update(status=Call.Status.FAILED, reply=None)
    record_feedback(session=session, edited="Searched all.", thumb=1, call_id=failed.pk)
    sessions.finish_session(session=session)
    judge_feedback()
    assert (Rating.objects.count(), corrected()) == (1, [])


def test_a_session_without_calls_gets_no_judgment(owner: Membership) -> None:
    session = factories.session(of=owner.workspace)
    record_feedback(session=session, thumb=1)
    sessions.finish_session(session=session)
    judge_feedback()
    assert not Queue.objects.exists()
    assert Feedback.objects.get().judged_at is not None


def test_feedback_that_breaks_keeps_none_of_other_sessions_waiting(
    session: Session, owner: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.annotation.user_feedback import judgments

    other = factories.session(of=owner.workspace, messages=SAID)
    for rated in (session, other):
        record_feedback(session=rated, thumb=1)
        sessions.finish_session(session=rated)
    store = judgments._store

    def broken(workspace: Any, run: Any, answer: Any) -> None:
        if run.session_path.session_id == session.pk:
            raise RuntimeError("unheard of")
        store(workspace, run, answer)

    monkeypatch.setattr(judgments, "_store", broken)
    judge_feedback()
    assert Rating.objects.get().item.a.session_path.session == other
    assert not Feedback.objects.filter(judged_at=None).exists()


def test_quality_and_agreement_do_not_count_users(session: Session) -> None:
    record_feedback(session=session, thumb=1)
    sessions.finish_session(session=session)
    judge_feedback()
    gathered = reports.gather(Queue.objects.get())
    assert gathered.work == []
    assert all(measure.answers == [] for measure in gathered.measures)
    assert gathered.machines == frozenset()


def test_the_replay_and_the_session_say_that_a_user_said_it(session: Session, owner: Membership) -> None:
    record_feedback(session=session, thumb=-1, comment="Wrong room.", edited="By the door.")
    sessions.finish_session(session=session)
    judge_feedback()
    client = as_(owner)
    page = client.get(reverse("gateway:session", args=[session.pk])).text
    assert "Feedback from users" in page
    assert "Wrong room." in page
    run = Rating.objects.get().item.a_id
    judged = client.get(reverse("annotation:judgments_of", args=[run])).text
    assert "thumb down" in judged
    assert "edited the answer" in judged
    assert '<span class="badge outline">user</span>' in judged


def test_the_desk_offers_no_such_ending(owner: Membership) -> None:
    from apps.annotation.kinds.steps import ON_THE_DESK

    assert [value for value, _ in ON_THE_DESK] == ["found_error", "solved", "bad_problem", "give_up"]


@pytest.mark.parametrize("role", [Role.ANNOTATOR, Role.REVIEWER])
def test_annotators_see_nothing_of_these_queues(session: Session, owner: Membership, role: Role) -> None:
    record_feedback(session=session, thumb=1)
    sessions.finish_session(session=session)
    judge_feedback()
    listed = as_(factories.member(role, of=owner.workspace)).get(reverse("annotation:queues")).text
    assert ("Feedback from users" in listed) == (role == Role.REVIEWER)


def rows_of(owner: Membership, queue: str, row_type: str) -> list[dict[str, Any]]:
    chosen = str(Queue.objects.get(name=queue).pk)
    dataset = freezing.create_dataset(name=row_type, description="", license="", by=owner)
    version = freezing.request_version(dataset=dataset, recipe=Recipe(queues=(chosen,), row_type=row_type), by=owner)
    freezing.freeze(version.pk)
    version.refresh_from_db()
    assert version.state == "frozen", version.failure
    token = {"authorization": f"Bearer {factories.token(owner)}"}
    rows = []
    for split in ("train", "validation", "test"):
        path = f"/api/v1/datasets/{dataset.pk}/versions/1/rows"
        answer = Client().get(path, {"split": split, "format": "jsonl"}, headers=token)
        if answer.status_code == 200:
            rows += [json.loads(line) for line in body_of(answer).splitlines()]
    return rows


def test_a_thumb_can_be_frozen_as_an_unpaired_row_and_an_edited_answer_as_a_preference(
    session: Session, owner: Membership
) -> None:
    record_feedback(session=session, thumb=1, edited="By the door.")
    sessions.finish_session(session=session)
    judge_feedback()
    [unpaired] = rows_of(owner, "Feedback from users", "unpaired")
    assert (unpaired["label"], unpaired["annotators"]) == (True, ["user:Users"])
    [pair] = rows_of(owner, "Answers edited by users", "step_preferences")
    assert pair["chosen"][0]["content"] == "By the door."
    assert pair["rejected"][0]["content"] == "On the shelf."
    assert (pair["origin"], pair["step"]) == ("correction", 1)


def test_a_recipe_names_users_among_those_whose_judgments_count() -> None:
    assert Recipe(queues=(str(new_id()),)).annotator_kinds == ("person", "model", "rule", "user")
