"""A small, whole record of each format that a tool writes while an agent runs: events, spans, lines of a session."""

from typing import Any

from tests.ingest.formats.parts import CALL, TOOLS

RECORDINGS: dict[str, Any] = {
    "swe-bench-report": {"total_instances": 2, "resolved_ids": ["owner__repo-1"], "unresolved_ids": ["owner__repo-2"]},
    "openhands": {
        "instance_id": "owner__repo-1",
        "instance": {"problem_statement": "It breaks."},
        "metadata": {"agent_class": "CodeActAgent", "llm_config": {"model": "m"}},
        "history": [
            {"id": 0, "source": "agent", "action": "system", "args": {"content": "Be brief.", "tools": TOOLS}},
            {
                "id": 1,
                "source": "user",
                "action": "message",
                "args": {"content": "Fix it.", "wait_for_response": False},
            },
            {"id": 2, "source": "user", "action": "recall", "args": {"query": "Fix it."}},
            {
                "id": 3,
                "source": "agent",
                "action": "run",
                "args": {"command": "ls", "thought": "I look."},
                "tool_call_metadata": {
                    "function_name": "bash",
                    "tool_call_id": "c1",
                    "model_response": {
                        "id": "r1",
                        "choices": [{"message": {"role": "assistant", "content": "I look.", "tool_calls": [CALL]}}],
                        "usage": {"prompt_tokens": 9, "completion_tokens": 3},
                    },
                },
            },
            {
                "id": 4,
                "source": "agent",
                "observation": "run",
                "content": "README.md",
                "cause": 3,
                "tool_call_metadata": {"function_name": "bash", "tool_call_id": "c1"},
            },
            {"id": 5, "source": "agent", "action": "finish", "args": {"final_thought": "Done.", "thought": ""}},
        ],
        "report": {"resolved": True},
        "error": None,
    },
    "langfuse": {
        "trace": {
            "id": "t1",
            "name": "helper",
            "tags": ["a"],
            "output": None,
            "scores": [{"name": "success", "value": 1}],
        },
        "observations": [
            {"id": "a", "type": "AGENT", "name": "helper", "startTime": "2026-01-01T00:00:00.000Z", "input": None},
            {
                "id": "b",
                "parentObservationId": "a",
                "type": "GENERATION",
                "name": "chat",
                "model": "m",
                "startTime": "2026-01-01T00:00:01.000Z",
                "endTime": "2026-01-01T00:00:03.500Z",
                "input": '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "List the files."}]',
                "output": {"role": "assistant", "content": "", "tool_calls": [CALL]},
                "usageDetails": {"input": 20, "output": 5},
            },
            {
                "id": "c",
                "parentObservationId": "a",
                "type": "TOOL",
                "name": "bash",
                "startTime": "2026-01-01T00:00:04.000Z",
                "input": {"command": "ls"},
                "output": "README.md",
            },
        ],
    },
    "otlp": {
        "resourceSpans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "helper"}}]},
                "scopeSpans": [
                    {
                        "scope": {"name": "s"},
                        "spans": [
                            {
                                "traceId": "t1",
                                "spanId": "a",
                                "name": "chat m",
                                "startTimeUnixNano": "1767225601000000000",
                                "endTimeUnixNano": "1767225603500000000",
                                "attributes": [
                                    {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
                                    {"key": "gen_ai.request.model", "value": {"stringValue": "m"}},
                                    {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "20"}},
                                    {
                                        "key": "gen_ai.input.messages",
                                        "value": {
                                            "stringValue": '[{"role": "user", "parts": [{"type": "text", "content": "Hello"}]}]'
                                        },
                                    },
                                    {
                                        "key": "gen_ai.output.messages",
                                        "value": {
                                            "stringValue": '[{"role": "assistant", "parts": [{"type": "text", "content": "Good day"}]}]'
                                        },
                                    },
                                ],
                                "status": {},
                            }
                        ],
                    }
                ],
            }
        ]
    },
    "claude-code": [
        {
            "type": "user",
            "uuid": "u1",
            "parentUuid": None,
            "sessionId": "s",
            "timestamp": "2026-01-01T00:00:01.000Z",
            "message": {"role": "user", "content": "List the files."},
        },
        {
            "type": "assistant",
            "uuid": "u2",
            "parentUuid": "u1",
            "sessionId": "s",
            "timestamp": "2026-01-01T00:00:03.000Z",
            "message": {
                "id": "m1",
                "model": "m",
                "role": "assistant",
                "content": [{"type": "text", "text": "README.md"}],
            },
        },
    ],
    "codex": [
        {"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": {"id": "s", "cwd": "/repo"}},
        {
            "timestamp": "2026-01-01T00:00:01Z",
            "type": "response_item",
            "payload": {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "List the files."}],
            },
        },
        {
            "timestamp": "2026-01-01T00:00:02Z",
            "type": "response_item",
            "payload": {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"},
        },
    ],
    "model-calls": [
        {
            "id": "1",
            "input": {"model": "m", "messages": [{"role": "user", "content": "List the files."}]},
            "output": {
                "model": "m",
                "choices": [{"message": {"role": "assistant", "content": "ls"}}],
                "usage": {"prompt_tokens": 5, "completion_tokens": 1},
            },
        },
    ],
    "magentic-one": [
        {"type": "OrchestrationEvent", "source": "Orchestrator (UserProxy)", "message": "What is 2 + 3?"},
        {"type": "LLMCallEvent", "prompt_tokens": 7, "completion_tokens": 2},
        {"type": "OrchestrationEvent", "source": "Orchestrator (-> Coder)", "message": "Add them."},
        {"type": "AgentEvent", "source": "Coder", "message": "5"},
        {"type": "OrchestrationEvent", "source": "Orchestrator (termination condition)", "message": "Done."},
    ],
    "letta": [
        {"message_type": "user_message", "content": "What is 2 + 3?"},
        {"message_type": "reasoning_message", "reasoning": "I add them."},
        {
            "message_type": "tool_call_message",
            "tool_call": {"name": "add", "arguments": '{"a": 2, "b": 3}', "tool_call_id": "c1"},
        },
        {"message_type": "tool_return_message", "tool_return": "5", "status": "success", "tool_call_id": "c1"},
        {"message_type": "assistant_message", "content": "5"},
        {"message_type": "usage_statistics", "completion_tokens": 9},
    ],
    "step-lines": [
        {"task_id": "t1", "instruction": "open the door", "step": 0, "obs": "a door", "action": "open", "reward": 0},
        {"task_id": "t1", "instruction": "open the door", "step": 1, "obs": "open", "action": "go", "reward": 1},
    ],
}
