import json

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role
from apps.annotation.desk.actions import record
from apps.annotation.kinds.answers import CorrectedAction, InspectionAnswer, Label
from apps.annotation.kinds.corrections import (
    MAX_CORRECTIONS,
    Tool,
    check_action,
    check_arguments,
    check_corrections,
    fields_of,
    read_call,
    tools_of,
)
from apps.annotation.kinds.questions import StepsAsks
from apps.annotation.models import Assignment, Continuation, Correction
from apps.annotation.refusals import BadAction
from apps.trajectories.models import Trajectory
from tests import factories
from tests.annotation import builders
from tests.annotation.desk.test_assignments import take

SEND = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "description": "An address."},
        "times": {"type": "integer", "minimum": 1},
        "urgent": {"type": ["boolean", "null"]},
        "folder": {"enum": ["inbox", "sent", 3]},
        "headers": {"type": "object"},
    },
    "required": ["to"],
    "additionalProperties": False,
}
MAIL = Tool("send", "Send a mail.", SEND)
LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {
            "type": "object",
            "properties": {"at": {"type": "string"}, "for": {"type": "string", "enum": ["all", "lamp"]}},
            "required": ["at"],
        },
    },
}


def call(name: str, arguments: object) -> dict[str, object]:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


def test_each_argument_has_a_field_of_its_kind():
    fields = fields_of(MAIL, {"to": "a\nb", "times": 2, "folder": 3})
    assert [(field.name, field.kind, field.value, field.required) for field in fields] == [
        ("to", "long", "a\nb", True),
        ("times", "number", "2", False),
        ("urgent", "boolean", "", False),
        ("folder", "choice", "3", False),
        ("headers", "json", "", False),
    ]
    assert fields[3].choices == (('"inbox"', "inbox"), ('"sent"', "sent"), ("3", "3"))
    assert [field.name for field in fields_of(Tool("any"), {"x": 1})] == ["arguments"]


def test_texts_have_fields_of_their_own_though_no_schema_names_them():
    fields = fields_of(Tool("bash"), {"command": "cd src\nls"})
    assert [(field.name, field.kind, field.value) for field in fields] == [
        ("command", "long", "cd src\nls"),
        ("arguments", "json", ""),
    ]
    assert read_call(Tool("bash"), {"command": "ls\npwd", "arguments": ""}) == {"command": "ls\npwd"}
    assert read_call(Tool("bash"), {"command": "", "arguments": '{"seconds": 5}'}) == {"seconds": 5}
    assert [field.name for field in fields_of(Tool("call"), {"arguments": "x"})] == ["arguments"]


def test_a_filled_in_form_becomes_typed_arguments():
    submitted = {"to": "007", "times": "2", "urgent": "true", "folder": '"sent"', "headers": '{"x": [1]}'}
    expected = {"to": "007", "times": 2, "urgent": True, "folder": "sent", "headers": {"x": [1]}}
    assert read_call(MAIL, submitted) == expected
    assert read_call(MAIL, {"to": "", "times": ""}) == {"to": ""}
    assert read_call(Tool("any"), {"arguments": '{"x": 1}'}) == {"x": 1}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"to": "a", "times": "0"}, "times: 0 is less than the minimum of 1"),
        ({"to": "a", "times": "two"}, "times: 'two' isn't JSON"),
        ({"to": "a", "times": "NaN"}, "times: 'NaN' isn't JSON"),
        ({"to": "a", "headers": '{"x": 1e999}'}, "headers: .* isn't JSON"),
        ({"to": "a", "headers": "[]"}, "headers: .* is not of type 'object'"),
    ],
)
def test_what_the_schema_refuses_is_said(arguments, words):
    with pytest.raises(BadAction, match=words):
        read_call(MAIL, arguments)


def test_an_action_must_be_one_that_the_policy_could_have_taken():
    check_action({"role": "assistant", "content": "It is done."}, [])
    check_action(call("send", '{"to": "a"}'), [MAIL])
    for wrong in (
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "  "},
        call("dig", {}),
        call("send", {"from": "b"}),
        call("send", "no json"),
        {"role": "assistant", "tool_calls": ["send"]},
        {"role": "assistant", "content": "x", "tool_calls": 1},
    ):
        with pytest.raises(BadAction):
            check_action(wrong, [MAIL])


def test_a_hostile_schema_fetches_nothing_and_keeps_nobody_waiting():
    evil = {"properties": {"x": {"type": "string", "pattern": "^(a+)+$"}, "y": {"$ref": "http://127.0.0.1:9/schema"}}}
    check_arguments(Tool("t", parameters=evil), {"x": "a" * 40 + "!"})
    check_arguments(Tool("t", parameters=evil), {"y": 1})
    check_arguments(Tool("t", parameters={"type": "nonsense"}), {})
    assert tools_of(["no tool", {"function": {"name": 3}}, LOOK]) == [
        Tool("look", parameters=LOOK["function"]["parameters"])
    ]


@pytest.fixture
def assignment(db, client: Client) -> Assignment:
    queue = builders.queue_of_trajectories()
    Trajectory.objects.update(tools=[LOOK])
    client.force_login(factories.member(Role.ANNOTATOR, of=queue.workspace).user)
    client.get(reverse("annotation:desk", args=[queue.pk]))
    return Assignment.objects.get()


def at(name: str, assignment: Assignment, index: int = 1) -> str:
    return reverse(f"annotation:{name}", args=[assignment.pk, index])


def test_the_form_begins_with_what_the_policy_did_and_its_check_says_what_is_wrong(client, assignment):
    page = client.get(at("better", assignment)).content.decode()
    assert 'name="arg.at" value="shelf 1"' in page
    answer = client.post(
        at("check_better", assignment),
        {"tool": "look", "arg.at": "the door", "arg.for": '"lamp"', "thought": "behind it"},
        headers={"Accept": "application/json"},
    )
    message = answer.json()["message"]
    assert message["reasoning_content"] == "behind it"
    assert message["tool_calls"] == [
        {
            "id": "call1",
            "type": "function",
            "function": {"name": "look", "arguments": {"at": "the door", "for": "lamp"}},
        }
    ]
    wrong = client.post(
        at("check_better", assignment), {"tool": "look", "arg.for": '"cup"'}, headers={"Accept": "application/json"}
    )
    assert (wrong.status_code, wrong.json()["code"]) == (409, "bad_action")
    assert "'cup' is not one of" in wrong.json()["detail"]
    assert client.get(at("better", assignment, 9)).status_code == 404
    client.force_login(factories.member(Role.OWNER, of=assignment.workspace).user)
    assert client.get(at("better", assignment)).status_code == 404


def test_an_argument_called_content_is_not_what_is_said_with_the_call(client, assignment):
    parameters = {"properties": {"path": {"type": "string"}, "content": {"type": "string"}}}
    Trajectory.objects.update(tools=[{"function": {"name": "write", "parameters": parameters}}])
    filled = {"tool": "write", "arg.path": "a.txt", "arg.content": "all of it", "content": "I write.", "thought": ""}
    answer = client.post(at("check_better", assignment), filled, headers={"Accept": "application/json"})
    message = answer.json()["message"]
    assert message["content"] == "I write."
    assert message["tool_calls"][0]["function"]["arguments"] == {"path": "a.txt", "content": "all of it"}


def test_an_answer_has_so_many_corrections_and_no_more(client, assignment):
    corrections = tuple(CorrectedAction(0, {"role": "assistant", "content": "x"}) for _ in range(MAX_CORRECTIONS + 1))
    check_corrections(corrections[1:], assignment.item.a)
    with pytest.raises(BadAction, match="These are 501 corrections; an answer may have 500 at most"):
        check_corrections(corrections, assignment.item.a)


def test_an_action_that_the_tools_refuse_is_not_stored(client, assignment):
    labels = [{"index": index, "value": 1} for index in range(4)]

    def send(arguments: dict[str, str]):
        corrections = [{"index": 1, "message": call("look", arguments)}]
        values = {"ending": "solved", "labels": json.dumps(labels), "corrections": json.dumps(corrections)}
        url = reverse("annotation:judge", args=[assignment.pk])
        return client.post(url, values, headers={"Accept": "application/json"})

    assert send({"for": "lamp"}).status_code == 409
    assert send({"at": "the door"}).status_code == 200
    assert Correction.objects.get().message["tool_calls"][0]["function"]["arguments"] == {"at": "the door"}


@pytest.mark.django_db
def test_a_queue_without_corrections_offers_no_form(client):
    queue = builders.queue_of_trajectories(asks=StepsAsks(corrections=False))
    client.force_login(factories.member(Role.ANNOTATOR, of=queue.workspace).user)
    assert b"data-better-here" not in client.get(reverse("annotation:desk", args=[queue.pk])).content
    assert client.get(at("better", Assignment.objects.get())).status_code == 404


@pytest.mark.django_db
def test_what_was_sampled_is_kept_as_the_policy_said_it_and_nothing_else_is_taken_for_it():
    queue = builders.queue_of_trajectories(items=2)
    policy = factories.policy(of=queue.workspace)
    odd, other = call("look", "no json"), call("look", "never sampled")
    for item in queue.items.all():
        Continuation.objects.create(
            workspace=queue.workspace, trajectory=item.a, policy=policy, index=0, count=2, messages=[odd], state="done"
        )
    annotator = builders.rule(of=queue.workspace)

    def correct(message: dict[str, object]) -> None:
        walk = InspectionAnswer(
            "give_up", labels=(Label(0, -1),), corrections=(CorrectedAction(0, message, policy.pk),)
        )
        record(assignment=take(queue, annotator), answer=walk)

    correct(odd)
    assert Correction.objects.get().policy == policy
    with pytest.raises(BadAction, match="isn't one of those sampled there"):
        correct(other)
