"""Trajectories in ATIF: valid according to its specification, and unchanged when imported again."""

import json
from typing import Any

import jsonschema
import pytest
from django.test import Client

from apps.accounts.models import Membership, Role
from apps.trajectories.atif import atif_form
from apps.trajectories.models import Trajectory
from contract.messages import Message
from tests import factories
from tests.accounts.clients import body_of
from tests.ingest.formats.rows import read

pytestmark = pytest.mark.django_db

TEXT = {"type": "string"}
PART = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"type": {"const": "text"}, "text": TEXT},
            "required": ["type", "text"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {
                "type": {"const": "image"},
                "source": {
                    "type": "object",
                    "properties": {
                        "media_type": {"enum": ["image/jpeg", "image/png", "image/gif", "image/webp"]},
                        "path": TEXT,
                    },
                    "required": ["media_type", "path"],
                    "additionalProperties": False,
                },
            },
            "required": ["type", "source"],
            "additionalProperties": False,
        },
    ]
}
CONTENT = {"oneOf": [TEXT, {"type": "array", "items": PART}]}
COUNT = {"type": "integer", "minimum": 0}
OBSERVATION = {
    "type": "object",
    "properties": {
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"source_call_id": TEXT, "content": CONTENT},
                "additionalProperties": False,
            },
        }
    },
    "required": ["results"],
    "additionalProperties": False,
}
CALL = {
    "type": "object",
    "properties": {"tool_call_id": TEXT, "function_name": TEXT, "arguments": {"type": "object"}},
    "required": ["tool_call_id", "function_name", "arguments"],
    "additionalProperties": False,
}
METRICS = {
    "type": "object",
    "properties": {
        "prompt_tokens": COUNT,
        "completion_tokens": COUNT,
        "completion_token_ids": {"type": "array", "items": COUNT},
        "logprobs": {"type": "array", "items": {"type": "number"}},
        "extra": {"type": "object"},
    },
    "additionalProperties": False,
}
STEP = {
    "type": "object",
    "properties": {
        "step_id": {"type": "integer", "minimum": 1},
        "source": {"enum": ["system", "user", "agent"]},
        "message": CONTENT,
        "observation": OBSERVATION,
        "reasoning_content": TEXT,
        "tool_calls": {"type": "array", "items": CALL},
        "metrics": METRICS,
        "is_copied_context": {"type": "boolean"},
        "extra": {"type": "object"},
    },
    "required": ["step_id", "source", "message"],
    "additionalProperties": False,
    "if": {"properties": {"source": {"enum": ["system", "user"]}}},
    "then": {"properties": dict.fromkeys(("reasoning_content", "tool_calls", "metrics"), False)},
}
ATIF = {
    "type": "object",
    "properties": {
        "schema_version": {"const": "ATIF-v1.6"},
        "session_id": {"type": "string", "minLength": 1},
        "agent": {
            "type": "object",
            "properties": {
                "name": TEXT,
                "version": TEXT,
                "model_name": TEXT,
                "tool_definitions": {"type": "array", "items": {"type": "object"}},
            },
            "required": ["name", "version"],
            "additionalProperties": False,
        },
        "steps": {"type": "array", "items": STEP, "minItems": 1},
        "final_metrics": {
            "type": "object",
            "properties": {"total_steps": COUNT, "total_completion_tokens": COUNT},
            "additionalProperties": False,
        },
        "extra": {"type": "object"},
    },
    "required": ["schema_version", "session_id", "agent", "steps"],
    "additionalProperties": False,
}
"""The fields written here according to Harbor's RFC 0001, which allows no others."""

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def call(name: str, arguments: Any, id: str = "c1") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def exported(trajectory: Trajectory) -> dict[str, Any]:
    """An exported trajectory, checked against the schema and for constraints that a schema can't express."""
    exported_data: dict[str, Any] = json.loads(b"".join(atif_form(trajectory)))
    jsonschema.validate(exported_data, ATIF)
    assert [step["step_id"] for step in exported_data["steps"]] == list(range(1, len(exported_data["steps"]) + 1))
    for step in exported_data["steps"]:
        known = {call["tool_call_id"] for call in step.get("tool_calls", [])}
        named = {result.get("source_call_id") for result in step.get("observation", {"results": []})["results"]}
        assert named - {None} <= known
    return exported_data


def run(*steps: dict[str, Any], **fields: Any) -> Trajectory:
    return factories.imported_run(list(steps), of=factories.workspace(), **fields)


def turn(message: Message, *context: Message, **fields: Any) -> dict[str, Any]:
    return {"context": list(context), "message": {"role": "assistant", **message}, **fields}


LOOKED = [
    turn(
        {"content": None, "reasoning_content": "I look.", "tool_calls": [call("look", '{"at": "shelf"}')]},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where is the lamp?"},
        prompt_tokens=9,
        completion_tokens=2,
        reward=0.5,
        info={"token_ids": [5, 6], "logprobs": [-0.1, -0.2]},
    ),
    turn({"content": "On the shelf."}, {"role": "tool", "tool_call_id": "c1", "content": "a lamp"}, done=True),
]


def test_results_stand_beside_their_calls() -> None:
    atif = exported(run(*LOOKED))
    system, user, looked, answered = atif["steps"]
    assert (system["source"], system["message"]) == ("system", "Be brief.")
    assert (user["source"], user["message"]) == ("user", "Where is the lamp?")
    assert looked["tool_calls"] == [{"tool_call_id": "c1", "function_name": "look", "arguments": {"at": "shelf"}}]
    assert looked["observation"] == {"results": [{"source_call_id": "c1", "content": "a lamp"}]}
    assert looked["reasoning_content"] == "I look."
    assert looked["metrics"] == {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "completion_token_ids": [5, 6],
        "logprobs": [-0.1, -0.2],
        "extra": {"reward": 0.5},
    }
    assert (answered["message"], answered["extra"]) == ("On the shelf.", {"done": True})
    assert atif["final_metrics"] == {"total_steps": 4, "total_completion_tokens": 2}


def test_what_is_exported_is_imported_as_the_same_chat() -> None:
    back = read("atif", exported(run(*LOOKED)))
    assert [(message["role"], message.get("content")) for message in back.messages()] == [
        ("system", "Be brief."),
        ("user", "Where is the lamp?"),
        ("assistant", ""),
        ("tool", "a lamp"),
        ("assistant", "On the shelf."),
    ]
    assert back.steps[0].completion_tokens == 2


def test_a_result_that_comes_after_another_message_stands_beside_its_call_too() -> None:
    late = [{"role": "user", "content": "Well?"}, {"role": "tool", "tool_call_id": "c1", "content": "a lamp"}]
    *_, looked, user, _ = exported(run(LOOKED[0], turn({"content": "Yes."}, *late)))["steps"]
    assert looked["observation"]["results"][0]["content"] == "a lamp"
    assert (user["source"], user["message"]) == ("user", "Well?")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        ("[1]", {"input": [1]}),
        ("{broken", {"input": "{broken"}),
        ({"a": 1}, {"a": 1}),
    ],
)
def test_arguments_are_always_an_object(arguments: Any, expected: dict[str, Any]) -> None:
    [step] = exported(run(turn({"content": "", "tool_calls": [call("look", arguments)]})))["steps"]
    assert step["tool_calls"][0]["arguments"] == expected


def test_what_the_policy_did_not_write_is_marked_as_copied() -> None:
    shown: list[Message] = [
        {"role": "assistant", "content": None, "tool_calls": [call("look", "{}")]},
        {"role": "tool", "tool_call_id": "c1", "content": "nothing"},
        {"role": "tool", "tool_call_id": "gone", "content": "lost"},
    ]
    copied, orphan, own = exported(run(turn({"content": "Hm."}, *shown)))["steps"]
    assert copied["is_copied_context"]
    assert copied["observation"]["results"] == [{"source_call_id": "c1", "content": "nothing"}]
    assert orphan["observation"]["results"] == [{"content": "lost"}]
    assert "is_copied_context" not in own


def test_images_are_parts_where_their_type_is_known() -> None:
    content = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.PNG?x=1"}},
        {"type": "image_url", "image_url": {"url": "data:image/webp;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/b"}},
    ]
    user, _ = exported(run(turn({"content": "A lamp."}, {"role": "user", "content": content})))["steps"]
    assert [part["type"] for part in user["message"]] == ["text", "image", "image", "text"]
    assert user["message"][1]["source"] == {"media_type": "image/png", "path": "https://example.org/a.PNG?x=1"}


def test_over_rest_the_form_is_asked_for(client: Client) -> None:
    trajectory = run(*LOOKED)
    member: Membership = factories.member(Role.REVIEWER, of=trajectory.workspace)
    headers = {"Authorization": f"Bearer {factories.token(member)}"}
    url = f"/api/v1/trajectories/{trajectory.pk}"
    atif = json.loads(body_of(client.get(f"{url}?form=atif", headers=headers)))
    assert atif["schema_version"] == "ATIF-v1.6"
    assert client.get(f"{url}?form=other", headers=headers).status_code == 400
    outsider = {"Authorization": f"Bearer {factories.token(factories.member())}"}
    assert client.get(f"{url}?form=atif", headers=outsider).status_code == 404
