"""Langfuse traces: chats are assembled from model calls, whichever framework recorded them."""

import json
import time
from typing import Any

import pytest

from apps.ingest import formats
from apps.ingest.traces.tool_results import OpenCalls
from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.parts import CALL
from tests.ingest.formats.rows import read, refusal

ROW = EXAMPLES["langfuse"]
ASKED = {"role": "user", "content": "Weather in Oslo?"}
ANSWER = {"role": "assistant", "content": "Rain."}
SEEN = {"role": "tool", "tool_call_id": "c1", "content": "rain"}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}],
}


def generation(second: int, inputs: Any, answer: Any, **more: Any) -> dict[str, Any]:
    start = f"2026-01-01T00:00:{second:02}.000Z"
    return {"id": f"g{second}", "type": "GENERATION", "startTime": start, "input": inputs, "output": answer, **more}


def tool(second: int, answer: Any, **more: Any) -> dict[str, Any]:
    return {**generation(second, None, answer), "id": f"t{second}", "type": "TOOL", "name": "weather", **more}


def trace(*observations: dict[str, Any], **about: Any) -> dict[str, Any]:
    return {"id": "t", **about, "observations": list(observations)}


def test_a_trace_with_its_observations():
    record = read("langfuse", ROW)
    (step,) = record.steps
    assert step.message == {"role": "assistant", "content": "", "tool_calls": [CALL]}
    assert [message["content"] for message in step.context] == ["Be brief.", "List the files."]
    assert record.closing == [{"role": "tool", "tool_call_id": "c1", "content": "README.md"}]
    assert (step.seconds, step.prompt_tokens, step.completion_tokens) == (2.5, 20, 5)
    assert (record.policy, record.success, record.reward) == ("m", True, None)
    assert (record.id, record.tags, record.task.instruction) == ("t1", ["a"], "List the files.")
    assert record.info == {"trace": {"name": "helper"}, "scores": [{"name": "success", "value": 1}]}


SPELLINGS: dict[str, tuple[Any, Any, Any]] = {
    # The first call's input and output, and the second call's input.
    "OpenAI": ([ASKED], {"choices": [{"message": CALLED}]}, [ASKED, CALLED, SEEN]),
    "OpenAI's Responses": (
        {"instructions": None, "input": "Weather in Oslo?"},
        {
            "output": [
                {"type": "function_call", "id": "fc", "call_id": "c1", "name": "weather", "arguments": {"city": "Oslo"}}
            ]
        },
        [
            ASKED,
            {"type": "function_call", "id": "fc", "call_id": "c1", "name": "weather", "arguments": {"city": "Oslo"}},
            {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        ],
    ),
    "Anthropic": (
        {"messages": [ASKED]},
        {
            "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Oslo"}}],
            "role": "assistant",
        },
        {
            "messages": [
                ASKED,
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Oslo"}}],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "rain"}]},
            ]
        },
    ),
    "Gemini": (
        {"contents": [{"role": "user", "parts": [{"text": "Weather in Oslo?"}]}]},
        {
            "content": {
                "role": "model",
                "parts": [{"function_call": {"id": "c1", "name": "weather", "args": {"city": "Oslo"}}}],
            }
        },
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Weather in Oslo?"}]},
                {
                    "role": "model",
                    "parts": [{"function_call": {"id": "c1", "name": "weather", "args": {"city": "Oslo"}}}],
                },
                {"role": "user", "parts": [{"function_response": {"id": "c1", "response": "rain"}}]},
            ]
        },
    ),
    "LangChain": (
        {"messages": [[{"type": "human", "content": "Weather in Oslo?", "additional_kwargs": {}}]]},
        {
            "generations": [
                [{"message": {"lc": 1, "id": ["langchain", "AIMessage"], "kwargs": {**CALLED, "role": None}}}]
            ]
        },
        [ASKED, {**CALLED, "tool_calls": None, "additional_kwargs": {"tool_calls": CALLED["tool_calls"]}}, SEEN],
    ),
    "Vercel AI SDK": (
        {"prompt": "Weather in Oslo?"},
        [{"toolCallId": "c1", "toolName": "weather", "input": {"city": "Oslo"}}],
        [
            {"role": "user", "content": [{"type": "text", "text": "Weather in Oslo?"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool-call", "toolCallId": "c1", "toolName": "weather", "input": {"city": "Oslo"}}
                ],
            },
            {
                "role": "tool",
                "content": [{"type": "tool-result", "toolCallId": "c1", "output": {"type": "text", "value": "rain"}}],
            },
        ],
    ),
    "OpenTelemetry": (
        [{"role": "user", "parts": [{"type": "text", "content": "Weather in Oslo?"}]}],
        [
            {
                "role": "assistant",
                "parts": [{"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Oslo"}}],
            }
        ],
        [
            {"role": "user", "parts": [{"type": "text", "content": "Weather in Oslo?"}]},
            {
                "role": "assistant",
                "parts": [{"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Oslo"}}],
            },
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "rain"}]},
        ],
    ),
    "Python's spelling": (str([ASKED]), str(CALLED), str([ASKED, CALLED, SEEN])),
}


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("framework", SPELLINGS)
def test_calls_of_every_framework_become_the_same_chat(framework: str, as_text: bool):
    first, called, then = (json.dumps(payload) if as_text else payload for payload in SPELLINGS[framework])
    record = read("langfuse", trace(generation(1, first, called), tool(2, "rain"), generation(3, then, "Rain.")))
    assert list(record.messages()) == [ASKED, CALLED, SEEN, ANSWER]


def test_calls_that_are_given_nothing_go_on_with_what_tools_answered():
    nothing = {"content": "role"}
    answered = {"content": [{"type": "text", "text": "rain"}]}
    row = trace(generation(1, ASKED, CALLED), tool(2, answered), generation(3, nothing, ANSWER))
    assert list(read("langfuse", row).messages()) == [ASKED, CALLED, SEEN, ANSWER]


def test_a_call_around_another_is_left_out():
    outer = generation(1, {"prompt": "Weather in Oslo?"}, "Rain.")
    inner = generation(2, [ASKED], ANSWER, parentObservationId="s")
    between = {**generation(1, None, None), "id": "s", "type": "SPAN", "parentObservationId": "g1"}
    assert list(read("langfuse", trace(outer, between, inner)).messages()) == [ASKED, ANSWER]


def test_a_call_that_names_itself_as_its_parent_is_read():
    row = trace(generation(1, [ASKED], ANSWER, parentObservationId="g1"))
    assert list(read("langfuse", row).messages()) == [ASKED, ANSWER]


def test_a_call_that_does_not_say_when_it_began_has_no_duration():
    row = trace(generation(1, [ASKED], ANSWER, startTime="?", endTime="2026-01-01T00:00:09.000Z"))
    assert read("langfuse", row).steps[0].seconds is None


def test_what_is_wrapped_too_often_is_kept_as_it_was_written():
    inputs: Any = "Weather?"
    for _ in range(9):
        inputs = {"messages": [inputs]}
    (question, _) = read("langfuse", trace(generation(1, inputs, ANSWER))).messages()
    assert question["role"] == "user"
    assert "Weather?" in question["content"]


def test_agents_with_prompts_of_their_own_are_runs_of_their_own():
    planner = [{"role": "system", "content": "Plan."}, ASKED]
    worker = [{"role": "system", "content": "Work."}, ASKED]
    row = trace(
        generation(1, planner, "Look outside."),
        generation(2, worker, CALLED),
        generation(3, [*worker, CALLED, SEEN], ANSWER),
        generation(
            4,
            [*planner, {"role": "assistant", "content": "Look outside."}, {"role": "user", "content": "Rain."}],
            "Done.",
        ),
    )
    plan, work = formats.named("langfuse").read(row, "t.json")
    assert [step.message["content"] for step in plan.steps] == ["Look outside.", "Done."]
    assert [step.message["content"] for step in work.steps] == [None, "Rain."]
    assert (plan.id, work.id) == ("t/1", "t/2")


@pytest.mark.parametrize("heard", [[ASKED], [ASKED, CALLED, SEEN]])
def test_a_failed_call_that_was_tried_again_is_one_turn(heard: list[Any]):
    failed = generation(3, heard, None, level="ERROR", statusMessage="overloaded")
    before = [] if len(heard) == 1 else [generation(1, [ASKED], CALLED)]
    row = trace(*before, failed, generation(5, heard, ANSWER))
    assert list(read("langfuse", row).messages()) == [*heard, ANSWER]


def test_the_same_prompt_sampled_twice_is_two_runs_of_a_task():
    first, second = formats.named("langfuse").read(
        trace(generation(1, [ASKED], "Rain."), generation(2, [ASKED], "Sun.")), ""
    )
    assert first.task.key == second.task.key
    assert [run.steps[0].message["content"] for run in (first, second)] == ["Rain.", "Sun."]


def test_an_answer_that_only_the_trace_has_is_the_last_turn():
    row = trace(generation(1, [ASKED], None), output={"role": "assistant", "text": "Rain."})
    assert list(read("langfuse", row).messages()) == [ASKED, ANSWER]


@pytest.mark.parametrize("is_text", [True, False])
def test_what_a_function_answered_in_the_agents_own_message_is_not_the_agents(is_text):
    called = "Thought: I look.\nFunction Name: rain\nFunction Input: {}"
    text = f"{called}\nFunction Output: wet\nThought: so"
    before = [ASKED, {"role": "assistant", "content": text if is_text else [{"type": "text", "text": text}]}]
    record = read("langfuse", trace(generation(1, before, ANSWER)))
    assert [step.message["content"] for step in record.steps] == [called, "Rain."]
    assert record.steps[1].context == [{"role": "user", "content": "Function Output: wet\nThought: so"}]


def test_an_agent_that_repeats_the_words_of_its_calls_is_read_in_no_time():
    """A pattern with three gaps once took twenty seconds for 12,000 characters of this, and eight times as long with each doubling."""
    text = "\n".join(["Function Name: rain\nFunction Input: {}"] * 4000)
    before = time.process_time()
    record = read("langfuse", trace(generation(1, [ASKED, {"role": "assistant", "content": text}], ANSWER)))
    assert [step.message["content"] for step in record.steps] == [text, "Rain."]
    assert time.process_time() - before < 5


def test_what_is_no_trace_is_refused_kindly():
    reason, expected = refusal("langfuse", trace(tool(1, "rain")))
    assert (reason, expected[:41]) == ("The trace has no model call.", "A trace contains at least one model call ")


def test_real_traces(real_data, real_file):
    """Each framework's trace is one trajectory, with one turn per model call."""
    folder = real_data("langfuse-traces")
    turns = {
        path.name.split(".")[0]: real_file(f"langfuse-traces/{path.name}").records
        for path in folder.glob("*.trace.json")
    }
    assert {name: [len(run.steps) for run in runs] for name, runs in turns.items()} == {
        "autogen-2025-06-06": [1],
        "beeai-2025-08-01": [3],
        "claude-agent-2025-12-22": [4],
        "crewai-2025-07-11": [1],
        "google-adk-2025-08-28": [2],
        "langgraph-python-2025-08-22": [2],
        "llamaindex-2025-06-05": [1],
        "openai-agents-2025-09-30": [2],
        "pydantic-ai-2025-06-06": [1],
        "vercel-aisdk-2025-11-17": [1],
    }
    results = [m for runs in turns.values() for run in runs for m in run.messages() if m["role"] == "tool"]
    assert len(results) == 6
    assert all(message["tool_call_id"] for message in results)


def test_calls_that_are_given_nothing_are_each_looked_at_once(monkeypatch):
    looked_at: list[Any] = []
    add = OpenCalls.add
    monkeypatch.setattr(OpenCalls, "add", lambda self, message: looked_at.append(message) or add(self, message))
    record = read("langfuse", trace(*(generation(place // 10, None, ANSWER) for place in range(300))))
    assert len(record.steps) == 300
    assert len(looked_at) == 300  # rather than 300 * 300 / 2


def test_a_result_is_of_the_call_whose_id_it_has_and_else_of_the_first_of_its_name():
    def called(*ids: str) -> dict[str, Any]:
        calls = [
            {"id": call_id, "type": "function", "function": {"name": "weather", "arguments": {}}} for call_id in ids
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    record = read(
        "langfuse",
        trace(
            generation(1, [ASKED], called("c1", "c2", "c3")),
            tool(2, "of c2", metadata={"attributes": {"gen_ai.tool.call.id": "c2"}}),
            tool(3, "of c1"),
            {**tool(4, "of another tool"), "name": "clock"},
            tool(5, "of c3"),
            tool(6, "of none"),
        ),
    )
    results = [(message["tool_call_id"], message["content"]) for message in record.closing]
    assert results == [("c2", "of c2"), ("c1", "of c1"), ("c3", "of c3")]


def test_the_outcome_of_a_trace_is_not_that_of_its_sub_agents():
    agent = generation(1, [ASKED], CALLED)
    asked = tool(2, "rain", parentObservationId="root")
    sub_agent = generation(3, [{"role": "user", "content": "Look outside."}], ANSWER, parentObservationId="t2")
    scores = [{"name": "success", "value": 1}, {"name": "reward", "value": 0.5}]
    row = trace(agent, asked, sub_agent, generation(4, [ASKED, CALLED, SEEN], ANSWER), scores=scores)
    main, part = formats.named("langfuse").read(row, "f")
    assert (main.success, main.reward, main.whole) == (True, 0.5, None)
    assert (part.success, part.reward, part.whole) == (None, None, main)


def test_a_score_of_a_category_is_read_by_its_name_and_a_score_of_zero_is_kept():
    category = {"name": "success", "dataType": "CATEGORICAL", "value": 1, "stringValue": "no"}  # the second category
    record = read("langfuse", trace(generation(1, [ASKED], ANSWER), scores=[category, {"name": "reward", "value": 0}]))
    assert (record.success, record.reward) == (False, 0.0)
    assert record.info["scores"] == [
        {"name": "success", "value": 1, "stringValue": "no"},
        {"name": "reward", "value": 0},
    ]
