"""Machine annotators over REST."""

import pytest

from apps.accounts.models import Role, Workspace
from apps.annotation.judges import enrollment, judge_performance
from apps.annotation.models import Item, Judge, JudgeAnswer, Queue
from apps.jobs import lifecycle
from apps.policies.models import Endpoint, Policy
from tests import factories
from tests.annotation import builders
from tests.annotation.api.test_reviews import Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def workspace() -> Workspace:
    return factories.workspace()


@pytest.fixture
def researcher(workspace: Workspace) -> Api:
    return Api(Role.RESEARCHER, workspace)


@pytest.fixture(autouse=True)
def sent(monkeypatch):
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(lifecycle, "enqueue", lambda *call: calls.append(call))
    return calls


def served(workspace: Workspace) -> Policy:
    endpoint = Endpoint.objects.create(workspace=workspace, name="server", base_url="http://127.0.0.1:1/v1")
    return factories.policy(of=workspace, kind=Policy.Kind.ENDPOINT, location="model", endpoint=endpoint)


def at(queue: Queue, judge: str = "", action: str = "") -> str:
    return "/".join(part for part in (f"/api/v1/queues/{queue.pk}/judges", judge, action) if part)


def test_a_model_is_sent_followed_paused_and_let_go_on(researcher, workspace, sent):
    queue, policy = builders.queue(of=workspace, items=2, steps=0), served(workspace)
    made = researcher.post(at(queue), policy=str(policy.pk), completion_price=10, most_cost=5)
    assert made.status_code == 201
    judge = Judge.objects.get()
    assert sent == [("judging.run_slice", str(judge.pk))]
    assert (judge.mode, judge.requests_a_minute, judge.most_cost) == ("prelabel", 60, 5.0)
    factories.preference(2, on=queue.items.first())
    JudgeAnswer.objects.create(judge=judge, item=queue.items.first(), prompt_version=1, a_left=2, b_left=1, strength=2)
    Judge.objects.update(answered=1, completion_tokens=200_000)
    response = researcher.get(at(queue, str(judge.pk)))
    assert (response["name"], response["policy"], response["state"]) == (policy.name, str(policy.pk), "running")
    assert (response["answered"], response["cost"], response["most_cost"]) == (1, 2.0, 5.0)
    assert response["prompt"] == {"version": 1, "text": enrollment.DEFAULT_PROMPT}
    assert (response["with_people"]["count"], response["with_people"]["of"]) == (1, 1)
    assert (response["steady"]["count"], response["steady"]["of"]) == (1, 1)
    assert researcher.get(at(queue))["results"] == [response]
    assert researcher.post(at(queue, str(judge.pk), "pause")).json()["state"] == "paused"
    assert researcher.post(at(queue, str(judge.pk), "resume")).json()["state"] == "running"
    raised = researcher.post(at(queue, str(judge.pk), "resume"), most_cost=2.5).json()
    assert (raised["state"], raised["most_cost"]) == ("running", 2.5)
    assert researcher.post(at(queue, str(judge.pk), "resume"), most_cost=None).json()["most_cost"] is None
    assert researcher.post(at(queue, str(judge.pk), "resume"), most_cost=-1).status_code == 400
    assert len(sent) == 2


def test_what_cannot_judge_is_refused_by_field_or_by_the_state_of_things(researcher, workspace):
    pairs, runs = builders.queue(of=workspace, steps=0), builders.queue_of_trajectories(of=workspace)
    policy = served(workspace)
    elsewhere = served(factories.workspace())
    refused = researcher.post(at(pairs), policy=str(elsewhere.pk))
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["policy"])
    refused = researcher.post(at(pairs), policy=str(policy.pk), requests_a_minute=0)
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["requests_a_minute"])
    refused = researcher.post(at(runs), policy=str(policy.pk))
    assert (refused.status_code, refused.json()["detail"][:23]) == (409, "Models judge pairs only")
    assert researcher.post(at(pairs), policy=str(policy.pk)).status_code == 201
    again = researcher.post(at(pairs), policy=str(policy.pk))
    assert (again.status_code, again.json()["detail"][:36]) == (409, "This model already judges this queue")


@pytest.mark.parametrize("role", [None, Role.ANNOTATOR, Role.REVIEWER], ids=["outsider", "annotator", "reviewer"])
def test_nobody_else_reads_or_steers_them(researcher, workspace, role):
    queue, policy = builders.queue(of=workspace, steps=0), served(workspace)
    judge = researcher.post(at(queue), policy=str(policy.pk)).json()["id"]
    somebody = Api(role, workspace)
    assert somebody.client.get(at(queue)).status_code == 404
    assert somebody.client.get(at(queue, judge)).status_code == 404
    assert somebody.post(at(queue), policy=str(policy.pk)).status_code == 404
    for action in ("pause", "resume"):
        assert somebody.post(at(queue, judge, action)).status_code == 404
    assert Judge.objects.get().state == Judge.State.WAITING


def test_a_judge_is_found_under_its_own_queue_only(researcher, workspace):
    queue, other = (builders.queue(of=workspace, steps=0) for _ in range(2))
    judge = researcher.post(at(queue), policy=str(served(workspace).pk)).json()["id"]
    assert researcher.client.get(at(other, judge)).status_code == 404
    assert researcher.post(at(other, judge, "pause")).status_code == 404


def test_of_each_judge_the_newest_answers_are_compared_however_many_another_gave(researcher, workspace, monkeypatch):
    monkeypatch.setattr(judge_performance, "COMPARED", 2)
    queue = builders.queue(of=workspace, items=6, steps=0)
    items = list(queue.items.order_by("pk"))
    for item in items:
        factories.preference(2, on=item)
    for name, grades in (("quiet", [-1, 1]), ("busy", [1, 1, 1, 1, -1, 1])):  # the busy one answered last
        policy = factories.policy(of=workspace, kind=Policy.Kind.REWARD_MODEL, name=name)
        judge = enrollment.send_judge(queue=queue, policy=policy, mode="prelabel", prompt="", by=None)
        for item, grade in zip(items, grades, strict=False):
            JudgeAnswer.objects.create(
                judge=judge, item=item, prompt_version=1, a_left=grade, b_left=grade, strength=grade
            )
    agreement = {row["name"]: row["with_people"] for row in researcher.get(at(queue))["results"]}
    assert {name: (row["count"], row["of"]) for name, row in agreement.items()} == {"quiet": (1, 2), "busy": (1, 2)}


def test_agreement_with_people_is_over_items_without_a_known_answer(researcher, workspace, sent):
    queue = builders.queue(of=workspace, items=2, steps=0)
    policy = factories.policy(of=workspace, kind=Policy.Kind.REWARD_MODEL)
    judge = enrollment.send_judge(queue=queue, policy=policy, mode="prelabel", prompt="", by=None)
    for item in queue.items.all():
        factories.preference(2, on=item)
        JudgeAnswer.objects.create(judge=judge, item=item, prompt_version=1, a_left=1, b_left=1, strength=1)
    Item.objects.filter(queue=queue, position=0).update(purpose="gold", known={"answer": 1})
    response = researcher.get(at(queue, str(judge.pk)))
    assert (response["with_people"]["of"], response["right_on_gold"]["of"]) == (1, 1)


def test_one_preference_among_ties_is_no_majority(workspace):
    queue = builders.queue(of=workspace, items=2, overlap=3)
    for strengths in ((1, 0), (0, 0), (0, 2)):  # the pairs one after the other, by each person
        person = factories.annotator(of=workspace)
        for strength in strengths:
            builders.judge(queue, person, strength)
    more_ties, tied = queue.items.order_by("position")
    assert judge_performance._majorities(queue) == {}
    for item in (more_ties, tied):
        factories.preference(-1, on=item)
        factories.preference(-1, on=item)
    assert judge_performance._majorities(queue) == {}
    factories.preference(-1, on=tied)
    assert judge_performance._majorities(queue) == {tied.pk: -1}
