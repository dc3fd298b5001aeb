"""OpenTelemetry traces, in the conventions of several instrumentations."""

import json
from pathlib import Path
from typing import Any

import pytest

from apps.ingest import formats
from apps.ingest.files.raw_records import RawRow
from apps.ingest.reading import Reading, RecognizedRecord
from apps.ingest.traces.span_groups import group_by_trace
from apps.ingest.upload import recognize_file
from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.rows import read, refusal

ASKED = {"role": "user", "content": "Weather in Oslo?"}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}],
}
SEEN = {"role": "tool", "tool_call_id": "c1", "content": "rain"}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def value(raw: Any) -> dict[str, Any]:
    if type(raw) is bool:
        return {"boolValue": raw}
    if type(raw) is int:
        return {"intValue": str(raw)}
    if type(raw) is list:
        return {"arrayValue": {"values": [value(item) for item in raw]}}
    return {"stringValue": raw}


def span(number: int, attributes: dict[str, Any], events: Any = (), **more: Any) -> dict[str, Any]:
    return {
        "traceId": "t",
        "spanId": str(number),
        "name": "span",
        "startTimeUnixNano": str(number * 10**9),
        "endTimeUnixNano": str(number * 10**9 + 5 * 10**8),
        "attributes": pairs(attributes),
        "events": [{"name": name, "attributes": pairs(body)} for name, body in events],
        **more,
    }


def pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(attribute)} for key, attribute in attributes.items()]


def document(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": list(spans)}]}]}


def test_messages_in_parts():
    record = read("otlp", EXAMPLES["otlp"])
    (step,) = record.steps
    assert list(record.messages()) == [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Good day"},
    ]
    assert (step.seconds, step.prompt_tokens, record.policy, record.id) == (2.5, 20, "m", "t1")
    assert record.info == {"trace": {"id": "t1", "service": "helper"}}


PARTS = [
    {"role": "user", "parts": [{"type": "text", "content": "Weather in Oslo?"}]},
    {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "c1", "name": "weather", "arguments": '{"city": "Oslo"}'}],
    },
]
RESULT = {"type": "tool_call_response", "id": "c1", "response": "rain"}
VOCABULARIES: dict[str, dict[str, Any]] = {
    "gen_ai": {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(PARTS[:1]),
        "gen_ai.output.messages": json.dumps(PARTS[1:]),
        "gen_ai.tool.definitions": json.dumps([TOOL]),
    },
    "gen_ai, indexed": {
        "gen_ai.request.model": "m",
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Weather in Oslo?",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.tool_calls.0.id": "c1",
        "gen_ai.completion.0.tool_calls.0.name": "weather",
        "gen_ai.completion.0.tool_calls.0.arguments": '{"city": "Oslo"}',
        "llm.request.functions.0.name": "weather",
        "llm.request.functions.0.parameters": '{"type": "object"}',
    },
    "OpenInference": {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Weather in Oslo?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "weather",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"city": "Oslo"}',
        "llm.tools.0.tool.json_schema": json.dumps(TOOL),
    },
    "AI SDK": {
        "ai.operationId": "ai.generateText.doGenerate",
        "ai.prompt.messages": json.dumps([ASKED]),
        "ai.response.toolCalls": json.dumps([{"toolCallId": "c1", "toolName": "weather", "input": '{"city": "Oslo"}'}]),
        "ai.prompt.tools": [json.dumps({"type": "function", "name": "weather", "parameters": {"type": "object"}})],
    },
}


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_every_vocabulary_says_the_same(vocabulary: str):
    record = read("otlp", document(span(1, VOCABULARIES[vocabulary])))
    assert list(record.messages()) == [ASKED, CALLED]
    assert [tool["function"]["name"] for tool in record.tools] == ["weather"]


def test_what_tools_answered_ends_the_run():
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "c1"}
    answered = span(2, {**tool, "gen_ai.tool.call.result": "rain"})
    assert list(read("otlp", document(span(1, VOCABULARIES["gen_ai"]), answered)).messages()) == [ASKED, CALLED, SEEN]


def test_messages_in_events():
    events = [
        ("gen_ai.system.message", {"content": "Be brief."}),
        ("gen_ai.user.message", {"content": "Weather in Oslo?"}),
        ("gen_ai.choice", {"index": 0, "message": json.dumps({"content": "Rain."})}),
    ]
    record = read("otlp", document(span(1, {"gen_ai.operation.name": "chat"}, events)))
    assert [message["content"] for message in record.messages()] == ["Be brief.", "Weather in Oslo?", "Rain."]


def test_of_several_answers_to_the_same_messages_the_first_is_the_turn():
    choices = [("gen_ai.choice", {"index": index, "content": answer}) for index, answer in enumerate(["Rain.", "Sun."])]
    events = [("gen_ai.user.message", {"content": "Weather in Oslo?"}), *choices]
    record = read("otlp", document(span(1, {"gen_ai.operation.name": "chat"}, events)))
    assert [step.message["content"] for step in record.steps] == ["Rain."]


@pytest.mark.parametrize("key", ["gen_ai.output.messages", "gen_ai.completion"])
def test_of_several_choices_in_attributes_the_first_is_the_turn(key: str):
    answers = [{"role": "assistant", "content": answer, "finish_reason": "stop"} for answer in ("Rain.", "Sun.")]
    indexed = {f"{key}.{n}.{name}": said for n, entry in enumerate(answers) for name, said in entry.items()}
    said = indexed if key == "gen_ai.completion" else {key: json.dumps(answers)}
    asked = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps([ASKED])}
    assert list(read("otlp", document(span(1, asked | said))).messages()) == [
        ASKED,
        {"role": "assistant", "content": "Rain."},
    ]


def test_results_in_events_answer_the_calls_that_they_name():
    calls = [{"id": id, "type": "function", "function": {"name": "weather", "arguments": "{}"}} for id in ("a", "b")]
    events = [
        ("gen_ai.user.message", {"content": "Weather?"}),
        ("gen_ai.assistant.message", {"tool_calls": json.dumps(calls)}),
        ("gen_ai.tool.message", {"id": "b", "content": "sun"}),
        ("gen_ai.tool.message", {"id": "a", "content": "rain"}),
        ("gen_ai.choice", {"content": "Mixed."}),
    ]
    record = read("otlp", document(span(1, {"gen_ai.operation.name": "chat"}, events)))
    assert [(entry["tool_call_id"], entry["content"]) for entry in record.steps[1].context] == [
        ("b", "sun"),
        ("a", "rain"),
    ]


@pytest.mark.parametrize("key", ["ai.response.text", "ai.response.object"])
def test_json_that_a_model_wrote_stays_as_it_is(key: str):
    said = '{ "content": "Rain.", "output": ["wet"] }'
    model = {"ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": json.dumps([ASKED])}
    record = read("otlp", document(span(1, {**model, key: said})))
    assert record.steps[0].message["content"] == said


def test_results_of_chats_side_by_side_are_told_apart_by_their_ids():
    def chat(number: int, asked: str, call_id: str) -> dict[str, Any]:
        call = {"id": call_id, "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        said = {"role": "assistant", "content": None, "tool_calls": [call]}
        return span(
            number,
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": json.dumps([{"role": "user", "content": asked}]),
                "gen_ai.output.messages": json.dumps([said]),
            },
        )

    def tool(number: int, call_id: str, result: str) -> dict[str, Any]:
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather"}
        return span(number, {**attributes, "gen_ai.tool.call.id": call_id, "gen_ai.tool.call.result": result})

    spans = [chat(1, "Oslo?", "a"), chat(2, "Rome?", "b"), tool(3, "b", "sun"), tool(4, "a", "rain")]
    records = formats.named("otlp").read(document(*spans), "f")
    assert [[entry["content"] for entry in record.closing] for record in records] == [["rain"], ["sun"]]


def test_a_call_id_that_repeats_is_answered_each_time():
    """Calls record only their answers, and the server numbers the calls of each answer from 0."""
    call = {"id": "call_0", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    said = json.dumps([{"role": "assistant", "content": None, "tool_calls": [call]}])
    model = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": said}
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.call.id": "call_0",
    }
    spans = [
        span(1, {**model, "gen_ai.input.messages": json.dumps([ASKED])}),
        span(2, {**tool, "gen_ai.tool.call.result": "rain"}),
        span(3, model),
        span(4, {**tool, "gen_ai.tool.call.result": "sun"}),
    ]
    record = read("otlp", document(*spans))
    assert [entry["content"] for entry in record.messages() if entry["role"] == "tool"] == ["rain", "sun"]


def test_what_the_ai_sdk_recorded_beside_calls_and_as_an_object():
    model = {"ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": json.dumps([ASKED])}
    calls = json.dumps([{"toolCallId": "c1", "toolName": "weather", "input": '{"city": "Oslo"}'}])
    both = {**model, "ai.response.text": "I'll look.", "ai.response.toolCalls": calls}
    assert list(read("otlp", document(span(1, both))).messages()) == [ASKED, {**CALLED, "content": "I'll look."}]
    one = {**model, "ai.operationId": "ai.generateObject.doGenerate", "ai.response.object": '{"rain": true}'}
    assert [entry["role"] for entry in read("otlp", document(span(1, one))).messages()] == ["user", "assistant"]


def test_a_trace_for_each_id_and_none_for_those_without_a_model():
    chat = VOCABULARIES["gen_ai"]
    other = {**span(2, chat), "traceId": "u"}
    plain = {**span(3, {"http.method": "GET"}), "traceId": "v"}
    runs = list(formats.named("otlp").read(document(span(1, chat), other, plain), "f"))
    assert [run.id for run in runs] == ["t", "u"]


def test_a_failed_call_says_why():
    failed = span(1, VOCABULARIES["gen_ai"], status={"code": 2, "message": "overloaded"})
    assert read("otlp", document(failed)).steps[0].error == "overloaded"


def test_spans_without_a_model_are_refused_kindly():
    reason, expected = refusal("otlp", document(span(1, {"http.method": "GET"})))
    assert reason == "None of the 1 spans is a model call."
    assert "`gen_ai.…`" in expected


def test_a_trace_in_several_lines_is_one_run_and_others_are_passed_over(tmp_path: Path):
    """A collector writes finished spans every few seconds. A broken line is rejected; traces of plain requests aren't."""
    first, called = VOCABULARIES["gen_ai"], json.dumps([*PARTS, {"role": "tool", "parts": [RESULT]}])
    answer = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "Rain."}]}])
    then = {**first, "gen_ai.input.messages": called, "gen_ai.output.messages": answer}
    request = {"http.method": "GET"}
    lines = [
        document({**span(1, request), "traceId": "v"}),
        document(span(2, first), {**span(3, request), "traceId": "w"}),
        "{ not JSON",
        document(),
        document(span(4, then), {**span(5, first), "traceId": "u"}),
    ]
    path = tmp_path / "spans.jsonl"
    path.write_text("".join((line if type(line) is str else json.dumps(line)) + "\n" for line in lines))
    with path.open("rb") as file:
        _, rows, format = recognize_file(file)
        broken, *records = rows
    assert (broken.position, broken.line, broken.body) == (0, 3, b"{ not JSON\n")
    assert [(row.position, row.line) for row in records] == [(1, 2), (2, 5)]
    runs = [list(format.read(json.loads(row.body), path.name)) for row in records]
    assert [[(run.id, len(run.steps)) for run in records] for records in runs] == [[("t", 2)], [("u", 1)]]


def test_a_trace_larger_than_a_record_may_be_is_refused():
    rows = (RawRow(0, 1, json.dumps(document(span(1, VOCABULARIES["gen_ai"]))).encode()) for _ in range(3))
    (row,) = group_by_trace(rows, 1000)
    assert row.problem.startswith("Longer than")


def test_where_no_trace_calls_a_model_one_is_given_to_say_so():
    rows = iter([RawRow(0, 1, json.dumps(document(*(span(n, {"a": 1}) for n in (1, 2)))).encode())])
    (row,) = group_by_trace(rows, 10**6)
    assert refusal("otlp", json.loads(row.body))[0] == "None of the 2 spans is a model call."


def test_where_there_are_no_spans_a_record_says_so():
    rows = iter([RawRow(n, n + 1, b'{"resourceSpans": []}') for n in range(3)])
    (row,) = group_by_trace(rows, 10**6)
    assert refusal("otlp", json.loads(row.body))[0] == "None of the 0 spans is a model call."


def test_a_chat_inside_of_a_tools_span_is_a_sub_agents():
    """Of two agents at work at once, each called one as a tool. A third chat stands beside them."""

    def chat(number: int, parent: int, asked: str) -> dict[str, Any]:
        messages = json.dumps([{"role": "user", "parts": [{"type": "text", "content": asked}]}])
        said = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "Done."}]}])
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": messages,
            "gen_ai.output.messages": said,
        }
        return span(number, attributes, parentSpanId=str(parent))

    def tool(number: int, parent: int) -> dict[str, Any]:
        return span(
            number, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ask"}, parentSpanId=str(parent)
        )

    agents = [span(number, {}, parentSpanId="1") for number in (2, 3)]
    spans = [span(1, {}), *agents, chat(4, 2, "A"), chat(5, 3, "B"), tool(6, 2), tool(7, 3)]
    spans += [chat(8, 6, "of A"), chat(9, 7, "of B"), tool(10, 6), chat(11, 10, "deeper"), chat(12, 1, "C")]
    records = list(formats.named("otlp").read(document(*spans), "f"))
    assert [(record.task.instruction, record.whole and record.whole.task.instruction) for record in records] == [
        ("A", None),
        ("B", None),
        ("of A", "A"),
        ("of B", "B"),
        ("deeper", "A"),
        ("C", None),
    ]


def test_what_another_agent_said_before_it_handed_over_is_context():
    def message(role: str, words: str) -> dict[str, Any]:
        return {"role": role, "parts": [{"type": "text", "content": words}]}

    def chat(number: int, answered: str, *asked: dict[str, Any]) -> dict[str, Any]:
        said = {"gen_ai.output.messages": json.dumps([message("assistant", answered)])}
        return span(number, {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(asked), **said})

    asked, passed_on = message("user", "Refund it."), message("assistant", "Billing will help.")
    first = chat(1, "Billing will help.", message("system", "You greet."), asked)
    refunded, thanked = message("assistant", "Refunded."), message("user", "Thanks.")
    second = [message("system", "You refund."), asked, passed_on]
    spans = [first, chat(2, "Refunded.", *second), chat(3, "Bye.", *second, refunded, thanked)]
    greeter, billing = formats.named("otlp").read(document(*spans), "f")
    assert [step.message["content"] for step in greeter.steps] == ["Billing will help."]
    assert [(step.message["content"], step.info["span"]) for step in billing.steps] == [
        ("Refunded.", "2"),
        ("Bye.", "3"),
    ]
    assert [entry["role"] for entry in billing.steps[0].context] == ["system", "user", "assistant"]
    assert billing.task.instruction == "Refund it."


def chat_span(number: int, asked: list[dict[str, Any]], answer: str, **more: Any) -> dict[str, Any]:
    said = json.dumps([{"role": "assistant", "content": answer}])
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(asked),
        "gen_ai.output.messages": said,
    }
    return span(number, {**attributes, "gen_ai.usage.output_tokens": number}, **more)


def test_agents_that_began_alike_each_keep_their_own_turns():
    """Three attempts at one task at once: the last one that began is done after its first call."""
    asked = {"role": "user", "content": "Guess."}

    def again(said: str) -> list[dict[str, Any]]:
        return [asked, {"role": "assistant", "content": said}, {"role": "user", "content": "No."}]

    begun = [chat_span(1, [asked], "One?"), chat_span(2, [asked], "Two?"), chat_span(3, [asked], "I give up.")]
    spans = [*begun, chat_span(4, again("One?"), "Four!"), chat_span(5, again("Two?"), "Five!")]
    records = formats.named("otlp").read(document(*spans), "f")
    assert [[(step.message["content"], step.completion_tokens) for step in record.steps] for record in records] == [
        [("One?", 1), ("Four!", 4)],
        [("Two?", 2), ("Five!", 5)],
        [("I give up.", 3)],
    ]


@pytest.mark.parametrize("attribute", ["gen_ai.input.messages", "gen_ai.output.messages"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_chat_that_cannot_be_read_is_refused_alone(attribute: str, number: int):
    """Whatever its place among the others; the chat of a sub-agent that it called is refused with it."""
    malformed = {"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}
    chats = [chat_span(n, [{"role": "user", "content": f"Question {n}"}], "Rain.") for n in (1, 2, 3)]
    odd = chats[number - 1]
    odd["attributes"] = [pair for pair in odd["attributes"] if pair["key"] != attribute]
    odd["attributes"] += pairs({attribute: json.dumps([malformed])})
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ask"}
    chats += [span(4, tool, parentSpanId=str(number)), chat_span(5, [ASKED], "Rain.", parentSpanId="4")]
    body = json.dumps(document(*chats)).encode()
    reading = Reading(RecognizedRecord(RawRow(0, 0, body), formats.named("otlp"), ""))
    instructions = reading.collect(lambda run: run.record.task.instruction)
    expected = [f"Question {n}" for n in (1, 2, 3) if n != number]
    assert instructions == expected
    assert reading.refusal
    assert reading.refusal.reason == "2 of its 4 chats can't be read. A tool call has no function name."


def test_a_call_that_ran_a_sub_agent_in_a_tool_stays_a_call():
    question = {"role": "user", "content": "Which order?"}
    outer = chat_span(1, [ASKED], "I asked.", spanId="1")
    tool = span(2, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ask"}, parentSpanId="1")
    spans = [outer, tool, chat_span(3, [question], "17.", parentSpanId="2")]
    records = list(formats.named("otlp").read(document(*spans), "f"))
    assert [record.task.instruction for record in records] == ["Weather in Oslo?", "Which order?"]
    assert records[1].whole is records[0]


def test_a_sub_agent_in_a_tool_of_a_call_belongs_to_that_calls_chat():
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ask"}
    agents = [chat_span(n, [{"role": "user", "content": asked}], "I ask.") for n, asked in ((1, "A"), (2, "B"))]
    called = [
        chat_span(n + 4, [{"role": "user", "content": f"of {n}"}], "17.", parentSpanId=str(n + 2)) for n in (1, 2)
    ]
    spans = [*agents, span(3, tool, parentSpanId="1"), span(4, tool, parentSpanId="2"), *called]
    records = list(formats.named("otlp").read(document(*spans), "f"))
    assert [record.whole and record.whole.task.instruction for record in records] == [None, None, "A", "B"]
