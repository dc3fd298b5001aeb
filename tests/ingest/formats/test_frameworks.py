"""Recordings by agent frameworks: the policy's output is distinguished from that of tools and programs."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from apps.ingest import formats
from apps.ingest.records import BadParts, TrajectoryRecord
from apps.ingest.upload import recognize_file
from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.parts import ASKED, CALLED, DONE, HEARD, WRITTEN
from tests.ingest.formats.rows import read, refusal

CHAT = ("adk", "agents-sdk", "autogen", "langsmith", "pydantic-ai", "spans", "gemini-cli", "goose", "opencode")


def logged(number: int, messages: list[Any], answer: Any, **more: Any) -> dict[str, Any]:
    """A call in Weave's log format."""
    return {
        "id": f"k{number}",
        "op_name": "openai.chat.completions.create",
        "trace_id": f"t{number}",
        "started_at": f"2026-01-01T00:00:0{number}Z",
        "ended_at": f"2026-01-01T00:00:0{number + 1}Z",
        "inputs": {"model": "m", "messages": messages},
        "output": {
            "model": "m",
            "choices": [{"message": answer}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 3},
        },
        "weave_task_id": "task-1",
        **more,
    }


def plain(record: TrajectoryRecord) -> list[tuple[bool, str, Any, list[Any]]]:
    """For each message: whether it's trained on, its role and content, and its calls."""

    def described(message: dict[str, Any], is_trained_on: bool) -> tuple[bool, str, Any, list[Any]]:
        calls = [call["function"] for call in message.get("tool_calls", [])]
        for call in calls:
            arguments = call["arguments"]
            call["arguments"] = json.loads(arguments) if isinstance(arguments, str) else arguments
        return is_trained_on, message["role"], message["content"] or None, calls

    turns = [
        described(m, own) for s in record.steps for own, ms in ((False, s.context), (True, [s.message])) for m in ms
    ]
    return turns + [described(message, False) for message in record.closing]


LISTED = [
    (False, "user", "List the files.", []),
    (True, "assistant", None, [{"name": "bash", "arguments": {"command": "ls"}}]),
    (False, "tool", "README.md", []),
    (True, "assistant", "One.", []),
]


@pytest.mark.parametrize("name", CHAT)
def test_a_call_its_result_and_the_answer_are_told_apart(name):
    record = read(name, copy.deepcopy(EXAMPLES[name]))
    turns = [turn for turn in plain(record) if turn[1] != "system"]
    if name == "adk":
        turns[2] = (*turns[2][:2], json.loads(turns[2][2])["output"], [])
    if name == "autogen":  # a program's summary of the result
        assert turns.pop(3)[:3] == (False, "assistant", "README.md")
    assert turns == LISTED
    assert record.steps[1].context[0]["tool_call_id"] == "c1"
    assert record.task.instruction == "List the files."


@pytest.mark.parametrize("name", ["adk", "autogen", "pydantic-ai", "spans", "gemini-cli", "opencode"])
def test_tokens_are_those_of_the_answer(name):
    step = read(name, EXAMPLES[name]).steps[0]
    assert (step.prompt_tokens, step.completion_tokens) == (9, 3)


@pytest.mark.parametrize(
    ("name", "policy", "id", "seconds"),
    [
        ("adk", "m", "s1", 1.5),
        ("agents-sdk", "m", "t1", 1.0),
        ("langsmith", None, "r1", 1.0),
        ("pydantic-ai", "m", "", None),
        ("spans", "m", "0xt1", 1.0),
        ("gemini-cli", "m", "s1", 2.0),
        ("opencode", "m", "s1", 1.5),
    ],
)
def test_whose_a_run_is_and_how_long_its_turns_took(name, policy, id, seconds):
    record = read(name, EXAMPLES[name])
    assert (record.policy, record.id, record.steps[0].seconds) == (policy, id, seconds)


def test_thoughts_are_reasoning():
    assert read("pydantic-ai", EXAMPLES["pydantic-ai"]).steps[0].message["reasoning_content"] == "I look."
    assert read("gemini-cli", EXAMPLES["gemini-cli"]).steps[0].message["reasoning_content"] == "Files: I look."


def test_pydantic_ai_instructions_that_stand_in_every_request_are_told_once():
    turns = [{**turn, "instructions": "Be kind."} for turn in EXAMPLES["pydantic-ai"]]
    instructions = [
        message["content"] for message in read("pydantic-ai", turns).messages() if message["role"] == "system"
    ]
    assert instructions == ["Be kind.", "Be brief."]


def test_a_history_of_autogen_is_read_by_its_names():
    chat = [
        {"role": "assistant", "name": "user_proxy", "content": "Count."},
        {"role": "user", "name": "coder", "content": "```sh\nls\n```"},
        {"role": "assistant", "name": "user_proxy", "content": "exitcode: 0"},
        {"role": "user", "name": "coder", "content": "One."},
    ]
    record = read("autogen", {"chat_history": chat, "cost": {}})
    assert [turn[:3] for turn in plain(record)] == [
        (False, "user", "Count."),
        (True, "assistant", "```sh\nls\n```"),
        (False, "user", "exitcode: 0"),
        (True, "assistant", "One."),
    ]


def test_what_code_printed_in_a_history_of_autogen_is_context():
    printed = "exitcode: 0 (execution succeeded)\nCode output: README.md"
    chat = [
        {"role": "assistant", "name": "user_proxy", "content": "Count."},
        {"role": "user", "name": "coder", "content": "```sh\nls\n```"},
        {"role": "user", "name": "code_runner", "content": printed},
        {"role": "user", "name": "coder", "content": "One."},
    ]
    turns = plain(read("autogen", {"chat_history": chat}))
    assert [turn[:3] for turn in turns[2:]] == [(False, "user", printed), (True, "assistant", "One.")]


def test_code_that_an_agent_of_autogen_writes_is_its_own_although_it_reports_no_usage():
    row = copy.deepcopy(EXAMPLES["autogen"])
    row["messages"].append({"source": "coder", "type": "CodeGenerationEvent", "content": "```sh\nls\n```"})
    row["messages"].append({"source": "coder", "type": "CodeExecutionEvent", "result": {"output": "README.md"}})
    assert [turn[:3] for turn in plain(read("autogen", row))[-2:]] == [
        (True, "assistant", "```sh\nls\n```"),
        (False, "user", "README.md"),
    ]


def test_what_a_program_said_in_an_agents_name_is_context():
    row = copy.deepcopy(EXAMPLES["autogen"])
    row["messages"].insert(1, {"source": "runner", "type": "TextMessage", "content": "ok", "models_usage": None})
    assert plain(read("autogen", row))[1] == (False, "assistant", "ok", [])
    for message in row["messages"]:
        message["models_usage"] = None  # no message reports usage
    assert plain(read("autogen", row))[1] == (True, "assistant", "ok", [])


def test_langsmith_feedback_is_the_outcome():
    assert read("langsmith", EXAMPLES["langsmith"]).success is None  # `correctness` may be any kind of score
    row = [{**run, "feedback_stats": {"correct": {"avg": 1.0}}} for run in EXAMPLES["langsmith"]]
    assert read("langsmith", row).success is True


def test_of_several_answers_to_one_call_of_langchain_the_first_is_the_turn():
    def stored(kind: str, content: str) -> dict[str, Any]:
        return {"lc": 1, "type": "constructor", "id": ["langchain", kind], "kwargs": {"content": content}}

    generations = [{"text": text, "message": stored("AIMessage", text)} for text in ("One.", "Two.")]
    run = {"id": "r1", "trace_id": "r1", "run_type": "llm", "outputs": {"generations": [generations]}}
    record = read("langsmith", {**run, "inputs": {"messages": [[stored("HumanMessage", "Count.")]]}})
    assert [message["content"] for message in record.messages()] == ["Count.", "One."]


def test_the_first_run_of_a_langsmith_trace_alone_holds_the_chat():
    root = {"id": "r1", "run_type": "chain", "inputs": {"messages": [ASKED]}, "outputs": {}}
    whole = {**root, "outputs": {"messages": [ASKED, CALLED, HEARD, DONE]}}
    new = {**root, "outputs": {"messages": [CALLED, HEARD, DONE]}}
    assert plain(read("langsmith", copy.deepcopy(whole))) == plain(read("langsmith", copy.deepcopy(new))) == LISTED
    assert refusal("langsmith", root)[0] == "Run r1: Its output has no message from a model."


def test_lines_of_a_trace_are_gathered(tmp_path: Path):
    for name in ("langsmith", "agents-sdk", "spans"):
        path = tmp_path / "lines.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in EXAMPLES[name]))
        with path.open("rb") as file:
            _, rows, format = recognize_file(file)
            (row,) = rows
        (record,) = format.read(json.loads(row.body), path.name)
        assert (format.name, len(record.steps)) == (name, 2)


def test_hals_outcome_is_that_of_the_longest_chat_of_a_task():
    aside = logged(3, [{"role": "user", "content": "Sum up."}], {"role": "assistant", "content": "Files."})
    row = {**EXAMPLES["weave"], "raw_logging_results": [*EXAMPLES["weave"]["raw_logging_results"], aside]}
    main, side = formats.named("weave").read(row, "f")
    assert (main.task.key, main.task.environment, main.success) == ("task-1", "gaia", True)
    assert (main.id, side.id) == ("run-1/task-1/1", "run-1/task-1/2")
    assert [len(main.steps), len(side.steps), side.success] == [2, 1, None]
    assert side.task.key != "task-1"
    failed = {**EXAMPLES["weave"], "results": {"failed_tasks": ["task-1"]}}
    assert next(formats.named("weave").read(failed, "f")).success is False


def test_one_unreadable_chat_of_a_task_does_not_refuse_the_others():
    nameless = {"role": "assistant", "content": None, "tool_calls": [{"function": {"arguments": "{}"}}]}
    odd = logged(3, [{"role": "user", "content": "Sum up."}], nameless)
    row = {**EXAMPLES["weave"], "raw_logging_results": [*EXAMPLES["weave"]["raw_logging_results"], odd]}
    records = formats.named("weave").read(row, "f")
    main = next(records)
    assert (main.task.key, main.success) == ("task-1", True)
    with pytest.raises(BadParts, match="1 of its 2 chats can't be read"):
        next(records)


def test_calls_of_weave_are_put_together_by_their_trace():
    calls = [logged(n, [ASKED], DONE, weave_task_id=None, trace_id=trace) for n, trace in ((1, "a"), (2, "b"))]
    records = list(formats.named("weave").read(calls, "f"))
    assert [(record.id, record.part) for record in records] == [("a", calls[:1]), ("b", calls[1:])]


def test_rows_of_phoenixs_table_are_spans():
    def messages(*chat):
        return [{"message.role": message["role"], "message.content": message["content"]} for message in chat]

    row = {
        "span_kind": "LLM",
        "context.trace_id": "t1",
        "context.span_id": "a",
        "start_time": 1767225600000,  # milliseconds, as pandas writes timestamps
        "end_time": 1767225601500,
        "status_code": "OK",
        "attributes.llm.model_name": "m",
        "attributes.llm.input_messages": messages(ASKED),
        "attributes.llm.output_messages": messages(DONE),
    }
    record = read("spans", [row])
    assert [turn[:3] for turn in plain(record)] == [(False, "user", "List the files."), (True, "assistant", "One.")]
    assert (record.policy, record.steps[0].seconds) == ("m", 1.5)


def test_traces_that_tell_nothing_of_what_models_said_are_refused():
    spans = [{"object": "trace.span", "trace_id": "t", "span_data": {"type": "response", "response_id": "r"}}]
    assert refusal("agents-sdk", spans)[0] == "None of the 1 records is a model call with messages."


def test_code_that_an_agent_of_smolagents_writes_is_no_call():
    first, last = read("smolagents", EXAMPLES["smolagents"]).steps
    assert first.message == {"role": "assistant", "content": WRITTEN}
    assert (first.seconds, first.prompt_tokens, first.completion_tokens, first.info) == (1.5, 9, 3, {"action": "1 + 1"})
    assert last.context == [{"role": "user", "content": "2"}]
    assert last.message["tool_calls"][0]["function"] == {"name": "final_answer", "arguments": {"answer": 2}}
    assert (last.done, last.error) == (True, "Too late.")


@pytest.mark.parametrize("arguments", [{"code": "1 + 1"}, {"query": "python_interpreter"}])
def test_an_agent_of_smolagents_that_calls_tools_may_run_code_or_mention_it(arguments: dict[str, str]):
    name = "python_interpreter" if "code" in arguments else "search"
    called = [{"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}]
    asked, answer = {"role": "user", "content": "How many?"}, {"role": "assistant", "content": "2"}
    logged = [
        asked,
        {"role": "tool-call", "content": f"Calling tools:\n{called}"},
        {"role": "tool-response", "content": "2"},
    ]
    steps = [
        {"task": "How many?", "task_images": None},
        {"model_output": None, "observations": "2", "tool_calls": called},
    ]
    for row in ({"messages": [*logged, answer]}, steps):
        record = read("smolagents", row)
        assert record.steps[0].message["tool_calls"] == called
        assert [message["role"] for message in record.messages()[:3]] == ["user", "assistant", "tool"]


def test_a_question_of_gaia_is_read_with_the_steps_that_led_to_its_answer():
    row = {
        "task_id": "g1",
        "question": "How many?",
        "prediction": "4",
        "agent_name": "m",
        "intermediate_steps": [
            {"role": "user", "content": [{"type": "text", "text": "New task: how many?"}]},
            {"role": "assistant", "content": [{"type": "text", "text": WRITTEN}]},
            {
                "role": "tool-call",
                "content": [
                    {
                        "type": "text",
                        "text": "Calling tools:\n[{'id': 'c1', 'type': 'function', 'function': {'name': 'python_interpreter', 'arguments': '1'}}]",
                    }
                ],
            },
            {"role": "tool-response", "content": [{"type": "text", "text": "Observation: 4"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "4"}]},
        ],
    }
    record = read("smolagents", row)
    assert [turn[:3] for turn in plain(record)] == [
        (False, "user", "New task: how many?"),
        (True, "assistant", WRITTEN),
        (False, "user", "Observation: 4"),
        (True, "assistant", "4"),
    ]
    assert (record.task.key, record.task.instruction, record.policy) == ("g1", "How many?", "m")


def test_turns_of_bfcl_come_in_their_order():
    record = read("bfcl", EXAMPLES["bfcl"])
    assert plain(record) == [
        (False, "user", "Go there.", []),
        (True, "assistant", None, [{"name": "cd", "arguments": {"folder": "a"}}]),
        (False, "tool", "in a", []),
        (True, "assistant", "Done.", []),
    ]
    assert (record.task.key, record.task.environment) == ("multi_turn_base_0", "bfcl")


def test_mind2web_is_an_action_a_page():
    record = read("mind2web", EXAMPLES["mind2web"])
    assert [turn[:3] for turn in plain(record)] == [
        (False, "user", "Book a flight."),
        (False, "user", "<a>"),
        (True, "assistant", "[button] Go -> CLICK"),
        (False, "user", "<b>"),
        (True, "assistant", "[text] From -> TYPE: Rome"),
    ]
    assert (record.task.key, record.task.category) == ("a1", "Travel")
    assert refusal("mind2web", {**EXAMPLES["mind2web"], "actions": []})[0].startswith("`action_reprs` has 2")


def test_rows_of_multimodal_mind2web_are_put_together_to_their_tasks(tmp_path: Path):
    def row(task, place, action):
        about = {
            "annotation_id": task,
            "confirmed_task": "Book.",
            "action_reprs": ["x"],
            "cleaned_html": f"<p>{action}</p>",
        }
        return {**about, "screenshot": {"bytes": "/9j/aa"}, "target_action_index": place, "target_action_reprs": action}

    file = tmp_path / "rows.jsonl"
    file.write_text(
        "".join(json.dumps(row(*fields)) + "\n" for fields in (("a", "0", "go"), ("a", "1", "type"), ("b", "0", "go")))
    )
    with file.open("rb") as opened:
        _, rows, format = recognize_file(opened)
        runs = [run for row in rows for run in format.read(json.loads(row.body), file.name)]
    assert [(run.task.key, [step.message["content"] for step in run.steps]) for run in runs] == [
        ("a", ["go", "type"]),
        ("b", ["go"]),
    ]
    page, picture = runs[1].steps[0].context[1]["content"]
    assert (page["text"], picture["image_url"]["url"]) == ("<p>go</p>", "data:image/jpeg;base64,/9j/aa")


@pytest.mark.parametrize("in_row", [False, True])
def test_spans_inside_spans_are_read_as_trail_has_them(in_row: bool):
    call = {
        "trace_id": "t",
        "span_id": "b",
        "parent_span_id": "a",
        "span_name": "model",
        "timestamp": "2026-01-01T00:00:01Z",
        "duration": "PT1M2.5S",
        "status_code": "Ok",
        "span_attributes": {
            "openinference.span.kind": "LLM",
            "llm.model_name": "m",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "q",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "a",
        },
        "child_spans": [],
    }
    root = {**call, "span_id": "a", "parent_span_id": None, "span_attributes": {"app": "x"}, "child_spans": [call]}
    trace = {"trace_id": "t", "spans": [root]}
    record = read("spans", {"trace": json.dumps(trace), "labels": "{}"} if in_row else trace)
    assert [message["content"] for message in record.messages()] == ["q", "a"]
    assert (record.policy, record.steps[0].seconds) == ("m", 62.5)


def test_agents_of_magentic_one_are_one_policy_and_its_program_is_none():
    record = read("magentic-one", EXAMPLES["magentic-one"])
    assert [turn[:3] for turn in plain(record)] == [
        (False, "user", "What is 2 + 3?"),
        (True, "assistant", "Add them."),
        (True, "assistant", "5"),
        (False, "user", "Done."),
    ]
    assert [(step.message["name"], step.prompt_tokens) for step in record.steps] == [
        ("Orchestrator", 7),
        ("Coder", None),
    ]


@pytest.mark.parametrize("name", ["ComputerTerminal", "Executor"])
def test_what_a_terminal_of_magentic_one_prints_is_a_result(name: str):
    ran = {"source": name, "message": "The script ran, then exited with Unix exit code: 0", "type": "AgentEvent"}
    record = read("magentic-one", [*EXAMPLES["magentic-one"], ran])
    assert plain(record)[-1][:3] == (False, "tool", ran["message"])


def test_encrypted_reasoning_of_letta_is_left_out():
    entries = [
        {"message_type": "user_message", "content": "go"},
        {"message_type": "hidden_reasoning_message", "state": "redacted", "hidden_reasoning": "gAAAAB"},
        {"message_type": "assistant_message", "content": "Gone."},
    ]
    (step,) = read("letta", entries).steps
    assert step.message == {"role": "assistant", "content": "Gone."}


def test_reasoning_calls_and_results_of_letta_are_entries_of_their_own():
    record = read("letta", EXAMPLES["letta"])
    first, last = record.steps
    assert (first.message["reasoning_content"], first.message["tool_calls"][0]["function"]["name"]) == (
        "I add them.",
        "add",
    )
    assert last.context == [{"role": "tool", "tool_call_id": "c1", "content": "5"}]
    assert last.message["content"] == "5"


def test_messages_of_letta_are_read_from_the_oldest_to_the_newest():
    entries = [{**entry, "date": f"2026-01-01T00:00:{at:02}+00:00"} for at, entry in enumerate(EXAMPLES["letta"])]
    assert plain(read("letta", entries[::-1])) == plain(read("letta", entries))


def test_each_of_lettas_parallel_calls_has_its_result():
    calls = [{"name": "add", "arguments": "{}", "tool_call_id": name} for name in ("c1", "c2")]
    results = [
        {"tool_call_id": "c1", "status": "success", "tool_return": "5"},
        {"tool_call_id": "c2", "status": "error", "tool_return": "Too large."},
    ]
    entries = [
        {"message_type": "summary_message", "summary": "They add."},
        {"message_type": "tool_call_message", "tool_call": calls[0], "tool_calls": calls},
        {"message_type": "tool_return_message", **results[0], "tool_returns": results},
    ]
    record = read("letta", entries)
    assert record.steps[0].context == [{"role": "user", "content": "They add."}]
    assert record.closing == [
        {"role": "tool", "tool_call_id": "c1", "content": "5"},
        {"role": "tool", "tool_call_id": "c2", "content": "Too large.", "is_error": True},
    ]


def test_objects_that_a_tool_of_pydantic_ai_returns_are_text():
    turns = copy.deepcopy(EXAMPLES["pydantic-ai"])
    [returned] = [part for turn in turns for part in turn["parts"] if part["part_kind"] == "tool-return"]
    returned["content"] = [{"name": "README.md"}]
    assert read("pydantic-ai", turns).steps[1].context[0]["content"] == '[{"name":"README.md"}]'
    wrong = [{"type": "missing", "loc": ["path"], "msg": "Field required"}]
    returned |= {"part_kind": "retry-prompt", "content": wrong}
    assert json.loads(read("pydantic-ai", turns).steps[1].context[0]["content"]) == wrong
    returned |= {"part_kind": "tool-return", "content": ["The picture:", {"kind": "image-url", "url": "https://a.b/c"}]}
    assert len(read("pydantic-ai", turns).steps[1].context[0]["content"]) == 2


def test_a_call_that_goose_could_not_parse_does_not_keep_its_session_out():
    failed = {"status": "error", "error": "It isn't JSON."}
    asked = {"role": "assistant", "content": [{"type": "toolRequest", "id": "c9", "toolCall": failed}]}
    answered = {"role": "user", "content": [{"type": "toolResponse", "id": "c9", "toolResult": failed}]}
    record = read("goose", [*EXAMPLES["goose"], asked, answered])
    assert record.steps[-1].message == {"role": "assistant", "content": ""}
    assert record.closing == [{"role": "tool", "tool_call_id": "c9", "content": "It isn't JSON.", "is_error": True}]


def mlflow(number: int, kind: str, inputs: Any, answer: Any, **more: Any) -> dict[str, Any]:
    """A span in the format of MLflow 3: attributes are JSON text, ids are base64, times are in nanoseconds."""
    attributes = {"mlflow.traceRequestId": "tr-1", "mlflow.spanType": kind, "mlflow.spanInputs": inputs}
    attributes |= {"mlflow.spanOutputs": answer, **more}
    return {
        "trace_id": "AAAA",
        "span_id": f"s{number}",
        "parent_span_id": "s0" if number else None,
        "name": "bash" if kind == "TOOL" else kind.lower(),
        "start_time_unix_nano": (1_700_000_000 + number) * 10**9,
        "end_time_unix_nano": (1_700_000_000 + number) * 10**9 + 5 * 10**8,
        "status": {"code": "STATUS_CODE_OK", "message": ""},
        "attributes": {name: json.dumps(value) for name, value in attributes.items()},
    }


@pytest.mark.parametrize("is_of_2", [False, True])
def test_a_trace_of_mlflow_is_a_run_with_its_assessments(is_of_2):
    usage = {"mlflow.chat.tokenUsage": {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}}
    calls = [
        mlflow(0, "AGENT", {"q": "List the files."}, "One."),
        mlflow(1, "CHAT_MODEL", {"model": "m", "messages": [ASKED]}, {"choices": [{"message": CALLED}]}, **usage),
        mlflow(2, "TOOL", {"command": "ls"}, "README.md"),
        mlflow(3, "CHAT_MODEL", {"model": "m", "messages": [ASKED, CALLED, HEARD]}, {"choices": [{"message": DONE}]}),
    ]
    if is_of_2:
        for call in calls:
            call["context"] = {"trace_id": "0xaa", "span_id": call.pop("span_id")}
            call["parent_id"], call["status_code"] = call.pop("parent_span_id"), call.pop("status")["code"]
            call["start_time"], call["end_time"] = call.pop("start_time_unix_nano"), call.pop("end_time_unix_nano")
            del call["trace_id"]
    score = {"assessment_name": "correct", "feedback": {"value": "yes"}}
    overridden = {"assessment_name": "correct", "feedback": {"value": "no"}, "valid": False}
    assessments = [score, overridden, {"assessment_name": "e", "expectation": {}}]
    info = {"trace_id": "tr-1", "state": "OK", "assessments": assessments}
    record = read("spans", {"info": info, "data": {"spans": calls}})
    assert plain(record) == LISTED
    assert (record.id, record.policy, record.success) == ("tr-1", "m", True)
    assert [(step.seconds, step.prompt_tokens, step.completion_tokens) for step in record.steps] == [
        (0.5, 9, 3),
        (0.5, None, None),
    ]
