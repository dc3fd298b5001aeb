"""Gemini's contents: parts become text, thoughts, calls, and results."""

from typing import Any

import pytest

from apps.ingest import formats
from apps.ingest.records import BadRow, TrajectoryRecord
from apps.ingest.upload import recognize
from tests.ingest.formats.examples import EXAMPLES

ROW: dict[str, Any] = EXAMPLES["gemini"]


def read(row: Any) -> TrajectoryRecord:
    format = recognize([row])
    assert format.name == "gemini"
    [record] = format.read(row, "file.jsonl")
    return record


def test_a_chat_with_a_call_and_its_result():
    record = read(ROW)
    call, answer = record.steps
    assert [(message["role"], message["content"]) for message in call.context] == [
        ("system", "Be brief."),
        ("user", "How warm is it in Rome?"),
    ]
    assert call.message["reasoning_content"] == "I look it up."
    [tool_call] = call.message["tool_calls"]
    assert tool_call["function"] == {"name": "weather", "arguments": {"city": "Rome"}}
    [result] = answer.context
    assert (result["role"], result["content"], result["tool_call_id"]) == ("tool", '{"celsius":21}', tool_call["id"])
    assert answer.message["content"] == "21 °C."
    assert [tool["function"]["name"] for tool in record.tools] == ["weather"]
    assert record.task.instruction == "How warm is it in Rome?"


def test_a_logged_request_ends_with_its_answer():
    response = {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "21 °C."}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 40, "candidatesTokenCount": 5},
        "modelVersion": "gemini-x",
    }
    request = {**ROW, "contents": ROW["contents"][:3]}
    record = read({"key": "request-1", "request": request, "response": response})
    assert len(record.steps) == 2
    assert (record.steps[1].prompt_tokens, record.steps[1].completion_tokens) == (40, 5)
    assert record.steps[1].message["content"] == "21 °C."
    assert record.policy == "gemini-x"


def test_bare_contents_are_a_run_and_pictures_stay_pictures():
    picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    record = read([{"role": "user", "parts": [picture, {"text": "What is it?"}]}, *ROW["contents"][3:]])
    [step] = record.steps
    assert step.context[0]["content"][0]["image_url"]["url"] == "data:image/png;base64,iVBORw0KGgo="


@pytest.mark.parametrize("role", [None, "pirate"])
def test_an_instruction_needs_no_role(role):
    record = read({**ROW, "systemInstruction": {"role": role, "parts": [{"text": "Be brief."}]}})
    assert record.steps[0].context[0] == {"role": "system", "content": "Be brief."}


def test_contents_that_are_none_are_refused():
    with pytest.raises(BadRow, match="without contents"):
        list(formats.named("gemini").read({"contents": []}, "file"))


def test_parts_that_say_what_they_are_are_not_geminis():
    shown = [{"role": "user", "parts": [{"type": "text", "text": "Hi"}]}, {"role": "assistant", "parts": []}]
    assert recognize([shown]).name == "openai-chat"


def test_what_code_that_gemini_ran_itself_printed_is_a_result():
    parts = [
        {"text": "I count."},
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"text": "One."},
    ]
    asked = {"role": "user", "parts": [{"text": "How many?"}]}
    first, last = read({"contents": [asked, {"role": "model", "parts": parts}]}).steps
    [call] = first.message["tool_calls"]
    assert (first.message["content"], call["function"]["arguments"]["code"]) == ("I count.", "print(1)")
    result = {"role": "tool", "tool_call_id": call["id"], "name": "code_execution", "content": "1"}
    assert (last.context, last.message["content"]) == ([result], "One.")
