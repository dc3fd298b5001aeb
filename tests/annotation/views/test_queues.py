import re
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import Role, Workspace
from apps.annotation.desk.actions import record
from apps.annotation.desk.assignments import annotator_of, next_assignment
from apps.annotation.kinds.answers import Choice, CorrectedAction, InspectionAnswer, Label, MarkedStep, Scores
from apps.annotation.kinds.questions import PairwiseAsks, Question, StepsAsks, comparison
from apps.annotation.models import Desk, Guideline, Preference, Queue
from apps.annotation.queries import totals_of
from apps.annotation.queues.items import fill
from apps.annotation.queues.queue_lifecycle import revise_guidelines
from apps.annotation.review.adjudication import adjudicate
from apps.common.pages import ShortPages
from apps.trajectories.models import Trajectory
from contract.questions import Condition
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.django_db
NAMES = ["queue", "items", "progress", "agreement", "guidelines"]


@pytest.fixture
def workspace() -> Workspace:
    return factories.workspace()


@pytest.fixture
def researcher(workspace: Workspace, client: Client) -> Client:
    client.force_login(factories.member(Role.RESEARCHER, of=workspace).user)
    return client


@pytest.fixture(autouse=True)
def sent(monkeypatch):
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr("apps.annotation.queues.queue_lifecycle.enqueue", lambda *call: calls.append(call))
    return calls


def at(name: str, queue: Queue) -> str:
    return reverse(f"annotation:{name}", args=[queue.pk])


def judged_queue(workspace: Workspace, strengths: list[int], **fields: object) -> Queue:
    """A queue of one pair with a judgment by a rule for each of `strengths`."""
    queue = builders.queue(of=workspace, overlap=len(strengths), **fields)
    for strength in strengths:
        rule = builders.rule(of=workspace)
        assignment = next_assignment(queue=queue, annotator=rule)
        record(assignment=assignment, answer=Choice(strength, rationale="as the rule says"))
    return queue


FORM = {"name": "Which?", "pairs": "all", "overlap": "2", "order": "fifo", "seed": "0", "lease_minutes": "20"}


def test_a_queue_is_made_from_picked_runs(researcher, workspace, sent):
    task = factories.task(of=workspace)
    runs = [builders.attempt(task, 0) for _ in range(4)]
    picked = [str(run.pk) for run in runs[:3]]
    page = researcher.get(reverse("annotation:new_queue"), {"trajectory": picked})
    assert page.context["preview"].items == 3
    response = researcher.post(
        reverse("annotation:new_queue"), {**FORM, "trajectory": picked, "guidelines": "Be fair."}
    )
    queue = Queue.objects.get()
    assert response.url == at("queue", queue)
    assert (queue.items_expected, queue.overlap, queue.lease_seconds) == (3, 2, 1200)
    assert queue.guidelines.get().text == "Be fair."
    assert sent == [("queues.fill", str(queue.pk))]


def test_a_queue_is_made_from_a_filter_of_the_list(researcher, workspace):
    for environment in ("shop", "office"):
        task = factories.task(of=workspace, environment=environment)
        builders.attempt(task, 0)
        builders.attempt(task, 0)
    response = researcher.post(reverse("annotation:new_queue"), {**FORM, "filter": "environment=shop"})
    assert response.status_code == 302
    assert Queue.objects.get().items_expected == 1


def test_the_preview_follows_the_form_and_says_why_runs_are_left_out(researcher, workspace):
    task = factories.task(of=workspace)
    for succeeds in (True, True, False):
        builders.attempt(task, 0, succeeds=succeeds)
    builders.attempt(factories.task(of=workspace), 0)
    page = researcher.post(
        reverse("annotation:preview_queue"), {**FORM, "pairs": "one", "overlap": "3", "different_outcomes": "on"}
    ).content.decode()
    assert "the only trajectory of its task in this selection" in page
    assert '<span class="figure">3</span><span class="name">judgments' in page
    assert "all trajectories" in page


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        ({"trajectory": [str(UUID(int=1)), str(UUID(int=2))]}, "2 selected trajectories"),
        ({"filter": "environment=shop"}, "everything a filter matches"),
    ],
)
def test_a_new_queue_says_which_runs_it_is_made_from(researcher, selection, words):
    assert words in researcher.get(reverse("annotation:new_queue"), selection).content.decode()
    assert words in researcher.post(reverse("annotation:preview_queue"), {**FORM, **selection}).content.decode()


def test_a_selection_without_pairs_keeps_the_form_and_says_so(researcher, workspace):
    builders.attempt(factories.task(of=workspace), 0)
    response = researcher.post(reverse("annotation:new_queue"), FORM)
    assert response.status_code == 422
    assert "No two of the selected trajectories can be paired" in response.content.decode()


def test_the_queue_page_shows_people_and_agreement(researcher, workspace):
    queue = judged_queue(workspace, [2, 1, -1])
    page = researcher.get(at("queue", queue)).content.decode()
    assert "Everything is judged" in page
    assert page.count("rule</span>") == 3  # rules are shown as rules
    agreement = researcher.get(at("agreement", queue)).content.decode()
    assert "33 %" in agreement  # of three pairs of judgments one agrees
    assert "On 1 item with two judgments or more (3 judgments)" in agreement


def test_a_judged_queue_offers_the_version_that_holds_it_and_another_where_more_was_said_since(researcher, workspace):
    queue = judged_queue(workspace, [2, -1])

    def offered() -> str:
        page = researcher.get(at("queue", queue)).content.decode()
        return re.search(r'<section class="next">.*?<a class="button primary"[^>]*>([^<]*)</a>', page, re.S)[1]

    assert offered() == "Freeze"
    recipe = {"queues": [str(queue.pk)], "until": now().isoformat()}
    failed = factories.dataset_version(of=workspace, recipe=recipe, state="failed")
    assert offered() == "Freeze"
    factories.dataset_version(of=workspace, recipe=recipe, dataset=failed.dataset, number=3)
    assert offered() == "Open version 3"
    factories.dataset_version(of=workspace, recipe={**recipe, "queues": []}, dataset=failed.dataset, number=4)
    reviewer = factories.member(Role.REVIEWER, of=workspace)
    adjudicate(item=queue.items.get(), by=reviewer.user, strength=1, reason="It checked first.")
    assert offered() == "Freeze version 5"
    researcher.force_login(reviewer.user)
    assert "version 3" not in researcher.get(at("queue", queue)).content.decode()


def test_a_list_without_known_answers_doesnt_wait_for_items(researcher, workspace):
    queue = builders.queue(of=workspace)
    page = researcher.get(f"{reverse('annotation:items', args=[queue.pk])}?show=known").content.decode()
    assert "No known answers" in page
    assert "being filled" not in page


def test_disputed_items_are_listed_by_themselves(researcher, workspace):
    peaceful, disputed = judged_queue(workspace, [2, 1]), judged_queue(workspace, [2, -1])
    assert "No disputes" in researcher.get(at("items", peaceful), {"show": "disputed"}).content.decode()
    page = researcher.get(at("items", disputed), {"show": "disputed"}).content.decode()
    assert "A clearly better" in page
    assert "B slightly better" in page


def test_guidelines_are_versioned_and_sanitised(researcher, workspace):
    queue = builders.queue(of=workspace)
    hostile = "# Rules\n\n<script>alert(1)</script> [x](javascript:alert(1))"
    researcher.post(at("guidelines", queue), {"text": hostile})
    revise_guidelines(queue=queue, text="# Rules, second edition", by=None)
    assert list(Guideline.objects.values_list("version", flat=True).order_by("version")) == [1, 2]
    preview = researcher.post(reverse("annotation:preview_guidelines"), {"text": hostile}).content.decode()
    assert "<h3>Rules</h3>" in preview
    assert "<script>" not in preview
    assert 'href="javascript' not in preview


def test_pausing_resuming_and_closing(researcher, workspace):
    queue = builders.queue(of=workspace)
    for action, state in (("pause", "paused"), ("resume", "open"), ("close", "closed"), ("resume", "open")):
        researcher.post(at(action, queue))
        queue.refresh_from_db()
        assert queue.state == state


def test_who_labels_only_sees_the_list_and_is_sent_to_the_desk(workspace, client):
    client.force_login(factories.member(Role.ANNOTATOR, of=workspace).user)
    queue = builders.queue(of=workspace)
    page = client.get(reverse("annotation:queues")).content.decode()
    assert at("desk", queue) in page
    assert at("queue", queue) not in page
    assert client.get(at("queue", queue)).url == at("desk", queue)
    assert [client.get(at(name, queue)).status_code for name in NAMES[1:]] == [404] * 4
    assert client.get(reverse("annotation:new_queue")).status_code == 404
    assert {client.post(at(action, queue)).status_code for action in ("pause", "resume", "close")} == {404}


def test_a_reviewer_reads_and_does_not_steer(workspace, client):
    client.force_login(factories.member(Role.REVIEWER, of=workspace).user)
    queue = builders.queue(of=workspace)
    assert [client.get(at(name, queue)).status_code for name in NAMES] == [200, 200, 200, 200, 404]
    assert client.post(at("pause", queue)).status_code == 404


def test_an_outsider_finds_nothing(workspace, client):
    queue = builders.queue(of=workspace)
    client.force_login(factories.member(Role.OWNER).user)
    assert [client.get(at(name, queue)).status_code for name in NAMES] == [404] * 5
    assert {client.post(at(action, queue)).status_code for action in ("pause", "resume", "close")} == {404}
    assert queue.name not in client.get(reverse("annotation:queues")).content.decode()
    assert client.get(f"/api/v1/queues/{queue.pk}").status_code == 404
    assert client.get(f"/api/v1/queues/{queue.pk}/preferences").status_code == 404


def test_the_api_lists_queues_and_standing_judgments_in_pages(workspace, client, monkeypatch):
    queue = judged_queue(workspace, [3, -2])
    secret = factories.token(factories.member(Role.RESEARCHER, of=workspace))
    bearer = {"Authorization": f"Bearer {secret}"}
    listed = client.get("/api/v1/queues", headers=bearer).json()
    assert [row["id"] for row in listed["results"]] == [str(queue.pk)]
    monkeypatch.setattr(ShortPages, "max_page_size", 1)  # a client that requests 1,000 gets the maximum page size
    first = client.get(f"/api/v1/queues/{queue.pk}/preferences?page_size=1000", headers=bearer).json()
    assert [row["strength"] for row in first["results"]] == [-2]
    assert first["results"][0]["annotator_kind"] == "rule"
    second = client.get(first["next"], headers=bearer).json()
    assert [row["strength"] for row in second["results"]] == [3]
    assert second["next"] is None


def test_the_api_shows_judgments_to_nobody_who_labels_only(workspace, client):
    queue = judged_queue(workspace, [3])
    secret = factories.token(factories.member(Role.ANNOTATOR, of=workspace))
    bearer = {"Authorization": f"Bearer {secret}"}
    assert client.get(f"/api/v1/queues/{queue.pk}", headers=bearer).status_code == 200
    assert client.get(f"/api/v1/queues/{queue.pk}/preferences", headers=bearer).status_code == 404
    assert Preference.objects.count() == 1


SINGLE = {**FORM, "every_step": "on", "corrections": "on", "thumb": "on"}


@pytest.mark.parametrize(("pairs", "items"), [("all", 4), ("one", 2)])
def test_a_queue_of_single_runs_is_drawn_and_filled(researcher, workspace, pairs, items):
    for runs in (3, 1):
        task = factories.task(of=workspace)
        for _ in range(runs):
            builders.attempt(task, 0)
    page = researcher.post(reverse("annotation:preview_queue"), {**SINGLE, "judged": "steps", "pairs": pairs})
    assert f'<span class="figure">{items}</span><span class="name">trajectories' in page.content.decode()
    researcher.post(reverse("annotation:new_queue"), {**SINGLE, "judged": "steps", "pairs": pairs, "order": "random"})
    queue = Queue.objects.get()
    fill(queue.pk)
    assert queue.items.filter(kind="steps", b=None).count() == items
    assert StepsAsks.from_json(queue.asks) == StepsAsks()
    assert researcher.get(at("items", queue)).status_code == 200
    assert ("all trajectories of a task" in researcher.get(at("queue", queue)).content.decode()) == (pairs == "all")


def test_a_queue_defines_its_questions(researcher, workspace):
    builders.pair(of=workspace)
    new = reverse("annotation:new_queue")
    questions = """[
      {"name": "Safety", "type": "comparison", "points": 3, "required": false},
      {"name": "What went wrong?", "type": "choices", "options": ["a tool", "the plan"]},
      {"key": "which", "name": "Which tool?", "type": "text", "when": {"question": "what-went-wrong", "any_of": ["a tool"]}}
    ]"""
    researcher.post(new, {**FORM, "judged": "pairwise", "questions": questions, "confidence": "on"})
    wrong = Question("what-went-wrong", "What went wrong?", type="choices", options=("a tool", "the plan"))
    which = Question("which", "Which tool?", type="text", when=Condition("what-went-wrong", ("a tool",)))
    asks = PairwiseAsks((comparison("safety", "Safety", 3), wrong, which), True)
    assert PairwiseAsks.from_json(Queue.objects.get().asks) == asks

    misspelled = researcher.post(
        new, {**FORM, "judged": "pairwise", "questions": '[\n{"name": "Safety", "pionts": 3}]'}
    )
    assert misspelled.status_code == 422
    assert "Line 2, question 1 (“Safety”): <code>pionts</code> is no field of a question" in misspelled.content.decode()
    assert "pionts" in misspelled.context["form"]["questions"].value()  # unchanged

    nothing = researcher.post(new, {**FORM, "judged": "rating", "questions": ""})
    assert "needs a question or a thumb" in nothing.content.decode()


def test_questions_are_shown_as_the_desk_asks_them_while_they_are_written(researcher):
    preview = reverse("annotation:preview_questions")
    questions = '[{"name": "Was it polite?", "low": "no", "high": "yes"}]'
    page = researcher.post(preview, {"judged": "rating", "questions": questions}).content.decode()
    assert 'name="question.was-it-polite" value="5"' in page
    page = researcher.post(preview, {"judged": "rating", "questions": '[{"name": "Safety", "type": "comparison"}]'})
    assert "comparison, which needs two sides" in page.content.decode()


def test_the_api_lists_step_labels_corrections_and_ratings(workspace, client):
    bearer = {"Authorization": f"Bearer {factories.token(factories.member(Role.RESEARCHER, of=workspace))}"}
    steps = builders.queue_of_trajectories(of=workspace, overlap=3)
    better = {"role": "assistant", "content": "Look behind the door."}
    walk = InspectionAnswer("found_error", 0, (Label(0, -1, critique="no"),), (CorrectedAction(0, better),))
    ratings = builders.queue_of_trajectories(Queue.Kind.RATING, of=workspace)
    record(
        assignment=next_assignment(queue=ratings, annotator=builders.rule(of=workspace)),
        answer=Scores({}, 1, (MarkedStep(2, "subgoal"),)),
    )
    counts = []
    for _ in range(3):
        record(assignment=next_assignment(queue=steps, annotator=builders.rule(of=workspace)), answer=walk)
        with CaptureQueriesContext(connection) as queries:
            inspections = client.get(f"/api/v1/queues/{steps.pk}/inspections", headers=bearer).json()["results"]
        counts.append(len(queries))
    assert counts[1] == counts[2]  # the first request also notes that the token is used
    assert (inspections[0]["ending"], inspections[0]["first_error"]) == ("found_error", 0)
    assert inspections[0]["labels"] == [{"index": 0, "value": -1, "is_filled": False, "critique": "no", "spans": []}]
    assert inspections[0]["corrections"] == [{"index": 0, "message": better, "origin": "written", "policy": None}]
    [rating] = client.get(f"/api/v1/queues/{ratings.pk}/ratings", headers=bearer).json()["results"]
    assert (rating["thumb"], rating["marks"]) == (1, [{"index": 2, "kind": "subgoal", "note": ""}])
    outsider = {"Authorization": f"Bearer {factories.token(factories.member(Role.OWNER))}"}
    for name in ("inspections", "ratings"):
        assert client.get(f"/api/v1/queues/{steps.pk}/{name}", headers=outsider).status_code == 404


def test_the_overview_tells_how_long_people_take_whatever_rules_do():
    queue = builders.queue(steps=0)
    rule, person, onlooker = (
        builders.rule(of=queue.workspace),
        *(factories.annotator(of=queue.workspace) for _ in range(2)),
    )
    Desk.objects.create(queue=queue, annotator=rule, judged=100, seconds=0.5)
    assert totals_of(queue).seconds_each is None
    Desk.objects.create(queue=queue, annotator=person, judged=2, seconds=30.0)
    Desk.objects.create(queue=queue, annotator=onlooker)
    totals = totals_of(queue)
    assert (totals.judged, totals.annotators, totals.seconds_each) == (102, 2, 15.0)


def test_a_trajectorys_judgment_names_the_other_side_and_its_item(researcher, workspace):
    queue = builders.queue(of=workspace)
    policy = factories.policy(of=workspace, name="the-rival")
    item = queue.items.get()
    Trajectory.objects.filter(pk=item.b_id).update(policy=policy)
    builders.judge(queue, annotator_of(factories.member(Role.ANNOTATOR, of=workspace)), 2)
    address = reverse("annotation:judgments_of", args=[item.a_id])
    page = researcher.get(address, headers={"HX-Request": "true"}).content.decode()
    assert f'href="{reverse("annotation:queue_item", args=[queue.pk, item.pk])}"' in page
    assert "clearly better</a>, against" in page
    assert (
        f'href="{reverse("trajectories:detail", args=[item.b_id])}" title="The other trajectory">the-rival</a>' in page
    )


def test_what_can_be_done_comes_without_a_reload(researcher, workspace):
    queue = judged_queue(workspace, [2, -1])
    page = researcher.get(at("queue", queue)).content.decode()
    shown = re.search(r"/progress/\?shown=([\w-]+)", page)[1]
    assert shown == "open-1-1"
    same = researcher.get(at("progress", queue), {"shown": shown})
    assert "queue-next" not in same.content.decode()
    changed = researcher.get(at("progress", queue), {"shown": "open-0-1"})
    moved = changed.content.decode()
    assert re.search(r'id="queue-next" data-nonce="\w+" hx-swap-oob="true">.*Everything is judged', moved, re.S)
    assert re.search(r'id="queue-actions" data-nonce="\w+" hx-swap-oob="true">.*Close</button>', moved, re.S)
    assert "HX-Refresh" not in changed.headers
    assert researcher.get(at("progress", queue), {"shown": "filling-0-0"}).headers["HX-Refresh"] == "true"


def test_without_queues_one_is_led_to_the_trajectories_or_where_there_are_none_to_an_import(researcher, workspace):
    imports, trajectories = reverse("trajectories:imports"), reverse("trajectories:list")

    def button() -> str:
        (address,) = re.findall(r'<a class="button primary" href="([^"]+)"', page_of_queues(researcher))
        return str(address)

    assert button() == imports
    builders.attempt(factories.task(of=workspace))
    assert button() == trajectories


def page_of_queues(client: Client) -> str:
    return client.get(reverse("annotation:queues")).content.decode()
