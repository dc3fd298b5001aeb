"""Making a queue and judging its items over REST."""

import json
from functools import partial
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import Membership, Role, Workspace
from apps.annotation.kinds.questions import Asks, PairwiseAsks, RatingAsks, StepsAsks, comparison
from apps.annotation.models import Inspection, Preference, Queue, Rating
from apps.annotation.queues import items, queue_lifecycle
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.django_db
SAID = {"role": "assistant", "content": "Done."}


class Caller:
    """An API client with a member's token."""

    def __init__(self, member: Membership) -> None:
        headers = {"authorization": f"Bearer {factories.token(member)}"}
        self.client = Client(headers=headers, raise_request_exception=False)

    def post(self, path: str, body: object = None) -> Any:
        sent = json.dumps(body or {})
        return self.client.post(f"/api/v1/{path}", sent, content_type="application/json")

    def next(self, queue: Queue) -> Any:
        answer = self.post(f"queues/{queue.pk}/next")
        assert answer.status_code in (200, 204), answer.content
        return answer.json() if answer.status_code == 200 else None

    def judge(self, held: Any, **judgment: object) -> Any:
        return self.post(f"assignments/{held['id']}/judgment", judgment)


@pytest.fixture
def workspace() -> Workspace:
    return factories.workspace()


@pytest.fixture
def annotator(workspace: Workspace) -> Caller:
    return Caller(factories.member(Role.ANNOTATOR, of=workspace))


@pytest.fixture
def researcher(workspace: Workspace) -> Caller:
    return Caller(factories.member(of=workspace))


def test_a_queue_is_made_of_what_a_filter_finds(
    researcher: Caller, annotator: Caller, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_lifecycle, "enqueue", lambda *_: None)
    for _ in range(2):
        builders.pair(of=workspace)
    settings = {"name": "Orders", "overlap": 2, "filter": "outcome=success", "guidelines": "Be kind."}
    answer = researcher.post("queues", settings)
    assert (answer.status_code, answer.json()["detail"][:36]) == (409, "No two of the selected trajectories ")
    answer = researcher.post("queues", {**settings, "filter": ""})
    assert (answer.status_code, answer.json()["state"], answer.json()["items_expected"]) == (201, "filling", 2)
    items.fill(answer.json()["id"])
    queue = Queue.objects.get(pk=answer.json()["id"])
    assert (queue.kind, queue.overlap, queue.item_count, queue.lease_seconds) == ("pairwise", 2, 2, 1200)
    held = annotator.next(queue)
    assert (held["guidelines"], held["guideline_version"]) == ("Be kind.", 1)
    refused = annotator.post(f"assignments/{held['id']}/judgment", {"answer": "3", "guideline_version": 2})
    assert refused.json()["fields"] == {"guideline_version": ["Got 2, but the latest version is 1."]}


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({}, "name", "This field is required"),
        ({"name": "a", "overlap": 0}, "overlap", "Give 1 or more"),
        ({"name": "a", "kind": "guess"}, "kind", "t one of the choices"),
        ({"name": "a", "filter": "color=red"}, "filter", "“color” isn't a filter"),
        ({"name": "a", "judged": "steps"}, "judged", "There is no such field"),
        ({"name": "a", "aspects": "Safety: 99"}, "aspects", "Safety"),
    ],
)
def test_what_is_wrong_with_a_new_queue_is_told_by_its_field(
    researcher: Caller, body: object, field: str, words: str
) -> None:
    answer = researcher.post("queues", body)
    assert (answer.status_code, words in str(answer.json()["fields"][field])) == (400, True), answer.content
    assert not Queue.objects.exists()


def test_questions_are_taken_and_given_as_the_same_json(
    researcher: Caller, annotator: Caller, workspace: Workspace
) -> None:
    builders.attempt(factories.task(of=workspace), 2)
    cause = {
        "key": "cause",
        "name": "What went wrong?",
        "type": "choices",
        "options": ["a tool", "the plan"],
        "required": True,
    }
    which = {
        "key": "which",
        "name": "Which?",
        "type": "text",
        "required": True,
        "when": {"question": "cause", "any_of": ["a tool"]},
    }
    sure = {"key": "sure", "name": "Sure?", "type": "scale", "points": 3, "required": False, "per": "step"}
    body = {"name": "Why", "kind": "rating", "thumb": False, "questions": [cause, which, sure]}
    answer = researcher.post("queues", body)
    assert (answer.status_code, answer.json()["asks"]["questions"]) == (201, [cause, which, sure]), answer.content
    queue = Queue.objects.get(pk=answer.json()["id"])
    items.fill(str(queue.pk))
    held = annotator.next(queue)
    answers: dict[str, object] = {"cause": ["the plan", "a tool"]}
    missing = annotator.judge(held, answers=answers)
    assert (missing.status_code, missing.json()["detail"][:24]) == (409, "Answer “Which?” first. I")
    steps = [{"index": 1, "answers": {"sure": 2}}]
    assert annotator.judge(held, answers={**answers, "which": "search"}, step_answers=steps).status_code == 201
    rating = Rating.objects.get()
    assert rating.answers == {"cause": ["a tool", "the plan"], "which": "search"}
    assert rating.step_answers == {"1": {"sure": 2}}
    refused = researcher.post("queues", {**body, "questions": [{**cause, "type": "stars"}]})
    assert "Question 1 (“What went wrong?”): `type` is" in str(refused.json()["fields"]["questions"])
    old = researcher.post("queues", {"name": "Old", "kind": "rating", "questions": "Was it polite? | 3 | no | yes"})
    assert [question["key"] for question in old.json()["asks"]["questions"]] == ["was-it-polite"]


@pytest.mark.parametrize("role", [Role.ANNOTATOR, Role.REVIEWER])
def test_queues_are_made_by_researchers(workspace: Workspace, role: Role) -> None:
    builders.pair(of=workspace)
    assert Caller(factories.member(role, of=workspace)).post("queues", {"name": "Mine"}).status_code == 404
    assert not Queue.objects.exists()


def test_a_pair_is_judged_by_side_and_stored_by_run(annotator: Caller, workspace: Workspace) -> None:
    queue = builders.queue(of=workspace, items=3)
    for lamp_wins in (True, False, True):
        held = annotator.next(queue)
        assert annotator.next(queue)["id"] == held["id"]  # still assigned
        sides = {run["side"]: "lamp" in str(run["steps"]) for run in held["runs"]}
        answer = annotator.judge(held, answer="2" if sides["left"] == lamp_wins else "-2", rationale="So it is.")
        assert (answer.status_code, answer.json()) == (201, {"assignment": held["id"], "feedback": ""})
    assert annotator.next(queue) is None
    assert [preference.strength for preference in Preference.objects.order_by("pk")] == [
        2,
        -2,
        2,
    ]  # run a looks for the lamp


def test_runs_are_judged_step_by_step_and_as_a_whole(annotator: Caller, workspace: Workspace) -> None:
    steps = builders.queue_of_trajectories(of=workspace)
    label = {"index": 1, "value": -1}
    held = annotator.next(steps)
    assert [len(run["steps"]) for run in held["runs"]] == [4]
    answer = annotator.judge(held, ending="found_error", first_error=1, labels=[{"index": 0, "value": 1}, label])
    assert answer.status_code == 201, answer.content
    assert Inspection.objects.get().first_error == 1
    rating = builders.queue_of_trajectories(Queue.Kind.RATING, of=workspace)
    answer = annotator.judge(annotator.next(rating), thumb="1", marks=[{"index": 0, "kind": "subgoal"}] * 2)
    assert answer.status_code == 201, answer.content
    assert (Rating.objects.get().thumb, Rating.objects.get().marks.count()) == (1, 1)


def test_an_item_tells_nothing_of_who_made_its_runs(annotator: Caller, workspace: Workspace) -> None:
    policy = factories.policy(of=workspace, name="secret-policy")
    task = factories.task(of=workspace, key="secret-key")
    message = factories.assistant_message("Done.", name="secret-model", model="secret-model")
    context = [{"role": "user", "content": "Do it.", "name": "secret-person"}]
    run = factories.trajectory(
        of=task, steps=[(context, message)], policy=policy, success=True, reward=0.123, external_id="secret-id"
    )
    queue = queue_lifecycle.create_queue_of_trajectories(
        workspace=workspace, created_by=None, name="Rate it", kind=Queue.Kind.RATING, trajectories=[run]
    )
    reply = json.dumps(annotator.next(queue))
    assert "Done." in reply
    assert not [word for word in ("secret", "0.123", "success", str(run.pk), str(policy.pk)) if word in reply]


def test_only_who_holds_an_item_judges_it_and_only_once(
    annotator: Caller, researcher: Caller, workspace: Workspace
) -> None:
    queue = builders.queue(of=workspace)
    held = annotator.next(queue)
    outsider = Caller(factories.member(Role.OWNER))
    assert researcher.judge(held, answer="2").status_code == 404
    assert outsider.judge(held, answer="2").status_code == 404
    assert outsider.post(f"queues/{queue.pk}/next").status_code == 404
    assert [annotator.judge(held, answer="2").status_code for _ in range(2)] == [201, 201]
    again = annotator.judge(held, answer="-2")
    assert (again.status_code, "already judged" in again.json()["detail"]) == (409, True)
    assert Preference.objects.count() == 1


@pytest.mark.parametrize(
    ("judgment", "field", "words"),
    [
        ({}, "answer", "This field is required"),
        ({"answer": "5"}, "answer", "t one of the choices"),
        ({"answer": "2", "thumb": "1"}, "thumb", "There is no such field"),
        ({"answer": "2", "answers": {"Safety": 1}}, "answers", "“Safety” isn't an item question of this queue"),
        ({"answer": "2", "seconds": -1}, "seconds", "Give 0 or more"),
    ],
)
def test_what_is_wrong_with_a_judgment_is_told_by_its_field(
    annotator: Caller, workspace: Workspace, judgment: dict[str, Any], field: str, words: str
) -> None:
    answer = annotator.judge(annotator.next(builders.queue(of=workspace)), **judgment)
    assert (answer.status_code, words in str(answer.json()["fields"].get(field))) == (400, True), answer.content
    assert not Preference.objects.exists()


@pytest.mark.parametrize(
    ("kind", "asks", "judgment", "field", "words"),
    [
        (
            *("pairwise", PairwiseAsks((comparison("safety", "Safety"),))),
            *({"answer": "2", "confidence": "3"}, "confidence"),
            "This queue doesn't ask for confidence; it asks for rationale, answer, answers to safety.",
        ),
        (
            *("rating", RatingAsks(thumb=False, marks=False), {"thumb": "1"}, "thumb"),
            "This queue doesn't ask for thumb; it asks for rationale.",
        ),
        (
            *("rating", RatingAsks(marks=False)),
            *({"thumb": "1", "marks": [{"index": 0, "kind": "subgoal"}]}, "marks"),
            "This queue doesn't ask for marks; it asks for rationale, thumb.",
        ),
        (
            *("steps", StepsAsks(every_step=False, corrections=False)),
            *({"ending": "solved", "corrections": [{"index": 0, "message": SAID}]}, "corrections"),
            "This queue doesn't ask for corrections; it asks for rationale, ending, first_error, labels.",
        ),
        (
            *("steps", StepsAsks(every_step=False)),
            *({"ending": "solved", "step_answers": [{"index": 0, "answers": {"safe": "yes"}}]}, "step_answers"),
            "“safe” isn't a step question of this queue; this queue has none.",
        ),
    ],
)
def test_what_a_queue_does_not_ask_for_is_refused(
    annotator: Caller, workspace: Workspace, kind: str, asks: Asks, judgment: dict[str, Any], field: str, words: str
) -> None:
    make = builders.queue if kind == "pairwise" else partial(builders.queue_of_trajectories, kind)
    answer = annotator.judge(annotator.next(make(of=workspace, asks=asks)), **judgment)
    assert (answer.status_code, answer.json()["fields"]) == (400, {field: [words]}), answer.content


def test_a_paused_queue_gives_out_nothing(annotator: Caller, workspace: Workspace) -> None:
    queue = builders.queue(of=workspace)
    queue_lifecycle.pause_queue(queue=queue, by=None)
    answer = annotator.post(f"queues/{queue.pk}/next")
    assert (answer.status_code, "isn't open" in answer.json()["detail"]) == (409, True)


def test_an_item_tells_nothing_of_whose_model_made_its_calls(annotator: Caller, workspace: Workspace) -> None:
    """Providers format call ids differently and send additional fields."""
    queue = builders.queue(of=workspace, items=1, steps=2)
    call = {
        "id": "toolu_1",
        "index": 0,
        "extra": {"google": 1},
        "function": {"name": "look", "arguments": "{}", "by": "x"},
    }
    run = queue.items.get().a
    run.steps.filter(index=0).update(
        message={"role": "assistant", "content": "", "name": "gpt", "tool_calls": [call, 7]}
    )
    run.steps.filter(index=1).update(
        context=[{"role": "tool", "tool_call_id": "toolu_1", "content": "no", "name": "x"}]
    )
    held = annotator.next(queue)
    [shown] = [run["steps"] for run in held["runs"] if run["steps"][1]["context"][0].get("content") == "no"]
    assert shown[0]["message"] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            {"id": "call_2", "type": "function", "function": {}},
        ],
    }
    assert shown[1]["context"] == [{"role": "tool", "content": "no", "tool_call_id": "call_1"}]
