"""Model calls, one per line, are joined to chats."""

from apps.ingest import formats
from tests.ingest.formats.rows import read

ASK = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
FIRST = {"role": "assistant", "content": "ls"}
THEN = [*ASK, FIRST, {"role": "user", "content": "a.py"}]


def answered(content, **usage):
    return {"model": "m", "choices": [{"message": {"role": "assistant", "content": content}}], "usage": usage}


def contents(record):
    return [message["content"] for message in record.messages()]


def test_appworlds_calls_are_one_run():
    record = read(
        "model-calls",
        [
            {"id": "1", "input": {"messages": ASK}, "output": answered("ls", prompt_tokens=5, completion_tokens=1)},
            {"id": "2", "input": {"messages": THEN}, "output": answered("done", prompt_tokens=9, completion_tokens=2)},
        ],
    )
    assert contents(record) == ["s", "q", "ls", "a.py", "done"]
    assert [(step.prompt_tokens, step.completion_tokens) for step in record.steps] == [(5, 1), (9, 2)]
    assert record.policy == "m"


def test_autogens_calls_are_one_run():
    calls = [(ASK, answered("ls")), (THEN, answered("done"))]
    record = read(
        "model-calls", [{"type": "LLMCall", "messages": messages, "response": response} for messages, response in calls]
    )
    assert contents(record) == ["s", "q", "ls", "a.py", "done"]


def test_a_request_and_its_response_may_be_two_lines():
    submit = {"id": "c1", "type": "function", "function": {"name": "submit", "arguments": "{}"}}
    record = read(
        "model-calls",
        [
            {"type": "request", "timestamp": "2026-01-01T00:00:00", "model": "m", "messages": ASK},
            {"type": "response", "timestamp": "2026-01-01T00:00:02", "outputs": [{"message": "ls"}], "input_tokens": 4},
            {"type": "request", "timestamp": "2026-01-01T00:00:03", "model": "m", "messages": THEN},  # a retry
            {"type": "request", "timestamp": "2026-01-01T00:00:05", "model": "m", "messages": THEN},
            {
                "type": "response",
                "timestamp": "2026-01-01T00:00:09",
                "outputs": [{"message": "", "tool_calls": [submit]}],
            },
        ],
    )
    assert contents(record) == ["s", "q", "ls", "a.py", ""]
    assert [(step.seconds, step.prompt_tokens) for step in record.steps] == [(2.0, 4), (4.0, None)]
    assert record.steps[1].message["tool_calls"][0]["function"]["name"] == "submit"


def test_another_agents_calls_are_another_run():
    other = [{"role": "system", "content": "another"}, {"role": "user", "content": "q"}]
    lines = [{"type": "LLMCall", "messages": messages, "response": answered("x")} for messages in (ASK, other)]
    assert len(list(formats.named("model-calls").read(lines, "log.jsonl"))) == 2
