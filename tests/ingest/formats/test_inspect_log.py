"""Inspect logs: separate parts are joined, and the log's own grades are the outcome."""

from copy import deepcopy
from typing import Any

import pytest

from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.rows import read, refusal

ROW = EXAMPLES["inspect"]


def changed(**changes: Any) -> dict[str, Any]:
    row = deepcopy(ROW)
    row["samples"][0] |= changes
    return row


def test_what_was_asked_done_and_seen():
    record = read("inspect", ROW)
    assert (record.task.key, record.task.environment, record.task.instruction) == ("7", "ctf", "Find the flag.")
    assert record.task.success_check == {"target": "flag"}
    first, second = record.steps
    assert first.context == [{"role": "user", "content": "Find the flag."}]
    assert (first.message["content"], first.message["reasoning_content"]) == ("Well.", "I look.")
    assert first.message["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": {"cmd": "ls"}}}
    ]
    assert second.context == [
        {"role": "tool", "tool_call_id": "c1", "name": "bash", "content": "Too slow.", "is_error": True}
    ]
    assert [tool["function"]["name"] for tool in record.tools] == ["bash"]


def test_who_acted_how_it_ended_and_what_it_took():
    record = read("inspect", ROW)
    assert (record.policy, record.reward, record.success, record.termination) == ("m", 1.0, True, "stop")
    assert (record.id, record.tags, record.info["epoch"]) == ("r/7/2", ["nightly"], 2)
    first = record.steps[0]
    assert (first.prompt_tokens, first.completion_tokens, first.seconds) == (9, 3, 1.5)


@pytest.mark.parametrize(
    ("value", "reward", "success"),
    [
        *(("C", 1.0, True), ("I", 0.0, False), ("P", 0.5, None), ("N", 0.0, False)),
        *((True, 1.0, True), (0.25, 0.25, None), ("well done", None, None), ({"a": 1}, None, None)),
    ],
)
def test_the_first_score_is_the_outcome(value: Any, reward: float | None, success: bool | None):
    record = read("inspect", changed(scores={"one": {"value": value}}))
    assert (record.reward, record.success) == (reward, success)


def test_the_only_score_of_the_first_logs_is_the_outcome():
    sample = {key: value for key, value in ROW["samples"][0].items() if key != "scores"}
    record = read("inspect", {**ROW, "samples": [{**sample, "score": {"value": "C"}}]})
    assert (record.reward, record.success) == (1.0, True)


def test_how_a_sample_may_end():
    assert read("inspect", changed(limit={"type": "message", "limit": 30})).termination == "limit: message"
    assert read("inspect", changed(error={"message": "no"}, scores=None)).termination == "error"
    assert read("inspect", changed(output={"choices": [{"stop_reason": "tool_calls"}]})).termination == ""


def test_pictures_are_spelled_as_in_chats():
    picture = {"type": "image", "image": "data:image/png;base64,AA=="}
    record = read("inspect", changed(messages=[{"role": "user", "content": [picture]}]))
    assert record.closing[0]["content"] == [{"type": "image_url", "image_url": {"url": picture["image"]}}]


def test_what_is_missing_is_said():
    assert "no samples" in refusal("inspect", {**ROW, "samples": []})[0]
    assert refusal("inspect", changed(messages=None))[0].startswith("Sample 1: `messages`")


def test_all_real_logs(real_data, real_file):
    """Sizes as counted in the data set's own notes; `tb_airline.json` there has another format."""
    folder = real_data("inspect-logs")
    logs = [path for path in sorted(folder.glob("*/*")) if path.suffix in (".json", ".eval")]
    files = [real_file(str(path.relative_to(folder.parent))) for path in logs]
    assert [file.format for file in files].count("inspect") == len(files) - 1
    records = [record for file in files if file.format == "inspect" for record in file.records]
    assert len(records) == 47
    assert [len(file.rejected) for file in files if file.rejected] == [1]  # a log without samples
    assert all(record.policy and record.task.environment for record in records)


def test_an_attachment_that_is_named_without_end_is_refused():
    parts = [{"type": "text", "text": "attachment://long"}] * 10_000
    row = changed(attachments={"long": "x" * 1_000_000}, messages=[{"role": "user", "content": parts}])
    assert "counted once per reference, have more than 67,108,864 characters" in refusal("inspect", row)[0]


def test_answers_in_a_samples_prompt_are_context():
    shown = [
        {"role": "user", "content": "1+1", "source": "input"},
        {"role": "assistant", "content": "2", "source": "input"},
        {"role": "user", "content": "2+2", "source": "input"},
        {"role": "assistant", "content": "4", "source": "generate"},
    ]
    (step,) = read("inspect", changed(messages=shown)).steps
    assert step.message["content"] == "4"
    assert [message["role"] for message in step.context] == ["user", "assistant", "user"]
