"""Small records of frameworks and of agents on a desktop: a user asks for the files, a tool is called, an answer is given."""

from typing import Any

LOOK = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": {"command": "ls"}}}
ASKED = {"role": "user", "content": "List the files."}
HEARD = {"role": "tool", "tool_call_id": "c1", "content": "README.md"}
CALLED = {"role": "assistant", "content": None, "tool_calls": [LOOK]}
DONE = {"role": "assistant", "content": "One."}
WRITTEN = "I add.\n```py\n1 + 1\n```"


def logged(number: int, messages: list[Any], answer: Any, **more: Any) -> dict[str, Any]:
    """A call as Weave logs it."""
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


def span(number: int, data: dict[str, Any]) -> dict[str, Any]:
    """A span of the Agents SDK."""
    times = {"started_at": f"2026-01-01T00:00:0{number}+00:00", "ended_at": f"2026-01-01T00:00:0{number + 1}+00:00"}
    return {"object": "trace.span", "id": f"s{number}", "trace_id": "t1", **times, "span_data": data}


def run(number: int, kind: str, inputs: Any, outputs: Any, parent: str | None = "r1") -> dict[str, Any]:
    """A run of LangSmith."""
    return {
        "id": f"r{number}",
        "name": kind,
        "run_type": kind,
        "trace_id": "r1",
        "parent_run_id": parent,
        "start_time": f"2026-01-01T00:00:0{number}",
        "end_time": f"2026-01-01T00:00:0{number + 1}",
        "inputs": inputs,
        "outputs": outputs,
    }


def stored(kind: str, **said: Any) -> dict[str, Any]:
    """A message as LangChain serializes it."""
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", kind], "kwargs": said}


MODEL = {"llm.model_name": "m", "llm.token_count.prompt": 9, "llm.token_count.completion": 3}


def recorded(number: int, kind: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """A span as OpenTelemetry's SDK prints it, in the vocabulary of OpenInference."""
    times = {"start_time": f"2026-01-01T00:00:0{number}Z", "end_time": f"2026-01-01T00:00:0{number + 1}Z"}
    context = {"trace_id": "0xt1", "span_id": f"0xs{number}"}
    return {
        "name": kind,
        "context": context,
        "parent_id": None,
        **times,
        "attributes": attributes | {"openinference.span.kind": kind},
    }


def said(which: str, *messages: dict[str, Any]) -> dict[str, Any]:
    """Messages as flat attributes."""
    found: dict[str, Any] = {}
    for place, message in enumerate(messages):
        begin = f"llm.{which}_messages.{place}.message"
        found[f"{begin}.role"] = message["role"]
        if message["content"]:
            found[f"{begin}.content"] = message["content"]
        if "tool_call_id" in message:
            found[f"{begin}.tool_call_id"] = message["tool_call_id"]
        for index, call in enumerate(message.get("tool_calls", [])):
            name = f"{begin}.tool_calls.{index}.tool_call"
            found |= {f"{name}.id": call["id"], f"{name}.function.name": call["function"]["name"]}
            found[f"{name}.function.arguments"] = '{"command": "ls"}'
    return found


LC_CALL = {"name": "bash", "args": {"command": "ls"}, "id": "c1", "type": "tool_call"}

FRAMEWORKS: dict[str, Any] = {
    "adk": {
        "id": "s1",
        "appName": "files",
        "events": [
            {
                "author": "user",
                "invocationId": "i",
                "timestamp": 1.0,
                "content": {"role": "user", "parts": [{"text": "List the files."}]},
            },
            {
                "author": "helper",
                "invocationId": "i",
                "timestamp": 2.5,
                "modelVersion": "m",
                "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3},
                "content": {
                    "role": "model",
                    "parts": [{"functionCall": {"id": "c1", "name": "bash", "args": {"command": "ls"}}}],
                },
            },
            {
                "author": "helper",
                "timestamp": 3.0,
                "content": {
                    "role": "user",
                    "parts": [{"functionResponse": {"id": "c1", "name": "bash", "response": {"output": "README.md"}}}],
                },
            },
            {"author": "helper", "partial": True, "content": {"role": "model", "parts": [{"text": "On"}]}},
            {"author": "helper", "timestamp": 4.0, "content": {"role": "model", "parts": [{"text": "One."}]}},
        ],
    },
    "agents-sdk": [
        {"object": "trace", "id": "t1", "workflow_name": "files"},
        span(0, {"type": "agent", "name": "helper", "tools": ["bash"]}),
        span(1, {"type": "generation", "model": "m", "input": [ASKED], "output": [CALLED]}),
        span(2, {"type": "function", "name": "bash", "input": '{"command": "ls"}', "output": "README.md"}),
        span(3, {"type": "generation", "model": "m", "input": [ASKED, CALLED, HEARD], "output": [DONE]}),
    ],
    "autogen": {
        "messages": [
            {"source": "user", "type": "TextMessage", "content": "List the files.", "models_usage": None},
            {
                "source": "helper",
                "type": "ToolCallRequestEvent",
                "content": [{"id": "c1", "name": "bash", "arguments": '{"command": "ls"}'}],
                "models_usage": {"prompt_tokens": 9, "completion_tokens": 3},
            },
            {
                "source": "helper",
                "type": "ToolCallExecutionEvent",
                "content": [{"call_id": "c1", "name": "bash", "content": "README.md", "is_error": False}],
                "models_usage": None,
            },
            {"source": "helper", "type": "ToolCallSummaryMessage", "content": "README.md", "models_usage": None},
            {
                "source": "helper",
                "type": "TextMessage",
                "content": "One.",
                "models_usage": {"prompt_tokens": 12, "completion_tokens": 2},
            },
        ],
        "stop_reason": "Text 'One' mentioned",
    },
    "langsmith": [
        run(1, "chain", {"messages": [ASKED]}, {"messages": []}, parent=None)
        | {"feedback_stats": {"correctness": {"n": 1, "avg": 1.0}}},
        run(
            2,
            "llm",
            {"messages": [[stored("HumanMessage", content="List the files.")]]},
            {"generations": [[{"text": "", "message": stored("AIMessage", content="", tool_calls=[LC_CALL])}]]},
        ),
        run(3, "tool", {"input": "{'command': 'ls'}"}, {"output": {"content": "README.md", "tool_call_id": "c1"}}),
        run(
            4,
            "llm",
            {
                "messages": [
                    [
                        stored("HumanMessage", content="List the files."),
                        stored("AIMessage", content="", tool_calls=[LC_CALL]),
                        stored("ToolMessage", content="README.md", tool_call_id="c1"),
                    ]
                ]
            },
            {"generations": [[{"text": "One.", "message": stored("AIMessage", content="One.", tool_calls=[])}]]},
        ),
    ],
    "pydantic-ai": [
        {
            "kind": "request",
            "parts": [
                {"part_kind": "system-prompt", "content": "Be brief."},
                {"part_kind": "user-prompt", "content": "List the files."},
            ],
        },
        {
            "kind": "response",
            "model_name": "m",
            "usage": {"input_tokens": 9, "output_tokens": 3},
            "parts": [
                {"part_kind": "thinking", "content": "I look."},
                {"part_kind": "tool-call", "tool_name": "bash", "args": '{"command": "ls"}', "tool_call_id": "c1"},
            ],
        },
        {
            "kind": "request",
            "parts": [{"part_kind": "tool-return", "tool_name": "bash", "content": "README.md", "tool_call_id": "c1"}],
        },
        {"kind": "response", "model_name": "m", "parts": [{"part_kind": "text", "content": "One."}]},
    ],
    "smolagents": [
        {"system_prompt": "Be brief."},
        {"task": "Add one and one.", "task_images": None},
        {
            "step_number": 1,
            "timing": {"duration": 1.5},
            "model_output": WRITTEN,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "python_interpreter", "arguments": "1 + 1"}}
            ],
            "code_action": "1 + 1",
            "observations": "2",
            "error": None,
            "token_usage": {"input_tokens": 9, "output_tokens": 3},
            "is_final_answer": False,
        },
        {
            "step_number": 2,
            "model_output": "",
            "tool_calls": [
                {"id": "c2", "type": "function", "function": {"name": "final_answer", "arguments": {"answer": 2}}}
            ],
            "observations": None,
            "error": {"type": "AgentError", "message": "Too late."},
            "is_final_answer": True,
        },
    ],
    "weave": {
        "config": {"agent_name": "A", "benchmark_name": "gaia", "run_id": "run-1"},
        "results": {"successful_tasks": ["task-1"], "failed_tasks": []},
        "raw_logging_results": [
            logged(1, [ASKED], CALLED),
            logged(2, [ASKED, CALLED, HEARD], DONE),
        ],
    },
    "spans": [
        recorded(1, "LLM", {**said("input", ASKED), **said("output", CALLED), **MODEL}),
        recorded(2, "TOOL", {"tool.name": "bash", "input.value": '{"command": "ls"}', "output.value": "README.md"}),
        recorded(3, "LLM", {**said("input", ASKED, CALLED, HEARD), **said("output", DONE), **MODEL}),
    ],
    "gemini-cli": {
        "sessionId": "s1",
        "messages": [
            {"type": "user", "timestamp": "2026-01-01T00:00:01Z", "content": [{"text": "List the files."}]},
            {"type": "info", "content": "Update available."},
            {
                "type": "gemini",
                "timestamp": "2026-01-01T00:00:03Z",
                "model": "m",
                "content": "",
                "thoughts": [{"subject": "Files", "description": "I look."}],
                "tokens": {"input": 9, "output": 3},
                "toolCalls": [
                    {
                        "id": "c1",
                        "name": "bash",
                        "args": {"command": "ls"},
                        "status": "success",
                        "result": [
                            {"functionResponse": {"id": "c1", "name": "bash", "response": {"output": "README.md"}}}
                        ],
                    }
                ],
            },
            {"type": "gemini", "timestamp": "2026-01-01T00:00:04Z", "model": "m", "content": "One."},
        ],
    },
    "goose": [
        {"working_dir": "/repo", "description": "files", "message_count": 3},
        ASKED | {"content": [{"type": "text", "text": "List the files."}]},
        {
            "role": "assistant",
            "content": [
                {
                    "type": "toolRequest",
                    "id": "c1",
                    "toolCall": {"status": "success", "value": {"name": "bash", "arguments": {"command": "ls"}}},
                }
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "toolResponse",
                    "id": "c1",
                    "toolResult": {"status": "success", "value": [{"type": "text", "text": "README.md"}]},
                }
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "One."}]},
    ],
    "opencode": {
        "info": {"id": "s1", "title": "files"},
        "messages": [
            {"info": {"role": "user"}, "parts": [{"type": "text", "id": "p1", "text": "List the files."}]},
            {
                "info": {
                    "role": "assistant",
                    "modelID": "m",
                    "tokens": {"input": 2, "output": 3, "cache": {"read": 7, "write": 0}},
                    "time": {"created": 1000, "completed": 2500},
                },
                "parts": [
                    {"type": "step-start"},
                    {
                        "type": "tool",
                        "callID": "c1",
                        "tool": "bash",
                        "state": {"status": "completed", "input": {"command": "ls"}, "output": "README.md"},
                    },
                    {"type": "step-finish"},
                ],
            },
            {"info": {"role": "assistant", "modelID": "m"}, "parts": [{"type": "text", "text": "One."}]},
        ],
    },
}
