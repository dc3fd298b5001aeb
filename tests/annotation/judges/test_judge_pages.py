"""What pages show of models that judge, and do with them."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role, Workspace
from apps.annotation.desk.actions import record
from apps.annotation.desk.assignments import next_assignment
from apps.annotation.judges.enrollment import revise_prompt
from apps.annotation.judges.judge_job import run_slice
from apps.annotation.judges.judge_performance import judge_rows, model_answers
from apps.annotation.kinds.answers import Choice
from apps.annotation.kinds.pairwise import PAIRWISE
from apps.annotation.models import Annotator, Assignment, Item, Judge, JudgeAnswer, Preference, Queue
from apps.annotation.phrases import a_is_left_in_review
from tests import factories
from tests.annotation import builders
from tests.annotation.judges.served_judges import send, served

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sent")]


@pytest.fixture
def researcher(workspace: Workspace, client: Client) -> Client:
    client.force_login(factories.member(Role.RESEARCHER, of=workspace).user)
    return client


def test_a_model_is_sent_from_the_queues_page_and_its_agreement_with_people_shown(researcher, workspace, server):
    queue = builders.queue(of=workspace, items=2)
    policy = served(workspace, server, "lamp")
    address = reverse("annotation:judges", args=[queue.pk])
    assert "No model judges this queue" in researcher.get(address).content.decode()
    form = {
        "policy": str(policy.pk),
        "mode": "prelabel",
        "prompt": "Prefer what works.",
        "requests_a_minute": 100_000,
        "prompt_price": 1,
        "completion_price": 2,
    }
    assert researcher.post(address, form).url == address
    assert "Prefer what works.</textarea>" in researcher.get(address).content.decode()
    updates = researcher.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "lamp" in updates
    assert "<textarea" not in updates  # it would replace a prompt that somebody is writing
    run_slice(Judge.objects.get().pk)
    person = factories.annotator(of=workspace)
    for strength in (1, -1):
        record(assignment=next_assignment(queue=queue, annotator=person), answer=Choice(strength))
    page = researcher.get(address).content.decode()
    assert "1 of 2; 95 % interval" in page  # the same as the person once
    assert "2 of 2; 95 % interval" in page  # and steady when the sides are swapped
    again = researcher.post(address, form)
    assert again.status_code == 422
    assert "already judges this queue" in again.content.decode()


@pytest.mark.parametrize(
    ("data", "most_cost", "is_resumed"),
    [
        ({}, 0.1, True),
        ({"most_cost": "0.5"}, 0.5, True),
        ({"most_cost": ""}, None, True),
        ({"most_cost": "-1"}, 0.1, False),
    ],
)
def test_the_page_resumes_a_judge_with_the_budget_that_is_given(workspace, server, client, data, most_cost, is_resumed):
    queue = builders.queue(of=workspace)
    judge = send(queue, server, "lamp", most_cost=0.1)
    Judge.objects.update(state=Judge.State.PAUSED)
    client.force_login(factories.member(Role.RESEARCHER, of=workspace).user)
    client.post(reverse("annotation:resume_judge", args=[queue.pk, judge.pk]), data)
    judge.refresh_from_db()
    assert (judge.most_cost, judge.is_active) == (most_cost, is_resumed)


def test_what_a_model_said_shows_after_one_has_answered_or_before_where_the_queue_says_so(workspace, server, client):
    member = factories.member(Role.ANNOTATOR, of=workspace)
    queue = builders.queue(of=workspace, items=2)
    run_slice(send(queue, server, "lamp", mode="prelabel").pk)
    client.force_login(member.user)
    desk = reverse("annotation:desk", args=[queue.pk])
    assert "It found the lamp" not in client.get(desk).content.decode()
    mine = reverse("annotation:mine", args=[queue.pk])
    assert "Compared with models" not in client.get(mine).content.decode()
    record(assignment=Assignment.objects.get(), answer=Choice(-1))
    assert "Compared with models" in client.get(mine).content.decode()
    Queue.objects.update(shows_machines=True)
    assert "It found the lamp" in client.get(desk).content.decode()


def test_a_reason_that_names_sides_says_so_where_they_are_swapped(workspace, server):
    queue = builders.queue(of=workspace)
    judge = send(queue, server, "lamp", mode="prelabel")
    item = Item.objects.get()
    answer = JudgeAnswer.objects.create(
        judge=judge, item=item, prompt_version=1, a_left=2, b_left=2, strength=2, reason="The left one found it."
    )
    reasons = [[said.reason for said in model_answers(item.pk, a_is_left=is_left)] for is_left in (True, False)]
    assert reasons == [["The left one found it."], ["With the sides swapped: The left one found it."]]
    answer.reason = "It found the lamp."
    answer.save()
    assert model_answers(item.pk, a_is_left=False)[0].reason == "It found the lamp."


def test_figures_are_those_of_the_current_prompt(workspace, server):
    queue = builders.queue(of=workspace)
    judge = send(queue, server, "lamp", mode="prelabel")
    JudgeAnswer.objects.create(
        judge=judge, item=Item.objects.get(), prompt_version=1, a_left=2, b_left=2, strength=2, reason=""
    )
    [row] = judge_rows(queue)
    assert (row.steady.of, row.left.of) == (1, 2)
    revise_prompt(judge=judge, text="Prefer the shorter one.", by=None)
    [row] = judge_rows(queue)
    assert row.prompt is not None
    assert (row.prompt.version, row.steady.of, row.left.of) == (2, 0, 0)


@pytest.mark.parametrize("role", [Role.REVIEWER, Role.RESEARCHER])
def test_an_items_page_has_one_left_side(workspace, server, client, role):
    client.force_login(factories.member(role, of=workspace).user)
    queue = builders.queue(of=workspace, items=2)
    judge = send(queue, server, "lamp", mode="prelabel")
    for item in Item.objects.all():  # one of them is shown to reviewers with trajectory a on the right
        JudgeAnswer.objects.create(
            judge=judge, item=item, prompt_version=1, a_left=2, b_left=2, strength=2, reason="The left one found it."
        )
        page = client.get(reverse("annotation:queue_item", args=[queue.pk, item.pk])).content.decode()
        is_researcher = role == Role.RESEARCHER
        assert ("Trajectory A is on the left here" in page) == is_researcher
        a_is_left = is_researcher or a_is_left_in_review(item)
        assert ("Left clearly better" in page) == a_is_left
        assert ("With the sides swapped: The left one" in page) != a_is_left


@pytest.mark.parametrize(
    ("a_was_left", "source", "turned"),
    [(True, "", True), (False, "", False), (None, "", True), (None, "file.jsonl", False)],
)
def test_a_reviewer_is_told_where_a_reason_names_the_other_side(a_was_left, source, turned):
    judgment = Preference(annotator=Annotator(source=source), a_was_left=a_was_left, rationale="The left one asks.")
    said = PAIRWISE.rationale_by_side(judgment, a_is_left=False)
    assert said == ("With the sides swapped: The left one asks." if turned else "The left one asks.")


def test_only_researchers_of_this_workspace_send_models(workspace, server, client):
    queue = builders.queue(of=workspace)
    judge = send(queue, server, "lamp")
    posts = [reverse(f"annotation:{name}", args=[queue.pk, judge.pk]) for name in ("pause_judge", "judge_prompt")]
    for member in (factories.member(Role.REVIEWER, of=workspace), factories.member(Role.OWNER)):
        client.force_login(member.user)
        assert client.get(reverse("annotation:judges", args=[queue.pk])).status_code == 404
        assert {client.post(address).status_code for address in posts} == {404}
