"""A small, whole record of each format."""

from typing import Any

CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "List the files."}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "README.md"},
    {"role": "assistant", "content": "README.md", "reasoning_content": "Only one."},
]
TOOLS = [{"type": "function", "function": {"name": "bash", "description": "run", "parameters": {"type": "object"}}}]

EXAMPLES: dict[str, Any] = {
    "retrace": {
        "format": "retrace/1",
        "id": "r1",
        "task": {"key": "k", "instruction": "do", "environment": "e", "initial_state": {"a": 1}, "success_check": {}},
        "policy": "p",
        "tools": TOOLS,
        "steps": [
            {"context": CHAT[:2], "message": CHAT[2], "reward": 0.5, "done": False, "error": None, "seconds": 1.5},
            {"context": CHAT[3:4], "message": CHAT[4], "reward": 1, "done": True, "prompt_tokens": 9, "info": {"x": 1}},
        ],
        "closing": [{"role": "user", "content": "thanks"}],
        "outcome": {"reward": 1.0, "success": True, "termination": "done"},
        "tags": ["a"],
        "info": {"n": 1},
    },
    "retrace-simple": {
        "task_id": "t1",
        "instruction": "open the door",
        "steps": [
            {"obs": "a door", "action": "open door", "reward": 0, "done": False},
            {"obs": "it is open", "action": {"name": "go", "arguments": {"to": "north"}}, "reward": 1, "done": True},
        ],
        "final_obs": "outside",
    },
    "openai-chat": {"messages": CHAT, "tools": TOOLS, "reward": 1, "model": "m", "usage": {"prompt_tokens": 1}},
    "sharegpt": {
        "conversations": [
            {"from": "human", "value": "List the files."},
            {"from": "function_call", "value": '{"name": "bash", "arguments": {"command": "ls"}}'},
            {"from": "observation", "value": "README.md"},
            {"from": "gpt", "value": "README.md"},
        ],
        "system": "Be brief.",
        "tools": '[{"name": "bash", "parameters": {}}]',
    },
    "verifiers": {
        "example_id": 0,
        "prompt": CHAT[:2],
        "completion": [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": ['{"id": "c", "function": {"name": "f", "arguments": "{}"}}'],
            }
        ],
        "task": "default",
        "reward": 0.75,
        "info": {"oai_tools": TOOLS},
        "answer": "x",
        "generation_ms": 1200.0,
        "judge_reward_func": 0.5,
    },
    "tau-bench": {
        "task_id": 0,
        "trial": 1,
        "reward": 1.0,
        "info": {
            "task": {"user_id": "u", "instruction": "You are u.", "actions": [], "outputs": []},
            "reward_info": {"reward": 1},
        },
        "traj": [*CHAT, {"role": "user", "content": "###STOP###"}],
    },
    "mini-swe-agent": {
        "trajectory_format": "mini-swe-agent-1.1",
        "instance_id": "owner__repo-1",
        "info": {"exit_status": "Submitted", "config": {"model": {"model_name": "m"}}, "mini_version": "2"},
        "messages": [
            *CHAT[:2],
            {
                **CHAT[2],
                "extra": {
                    "cost": 0.1,
                    "timestamp": 12.0,
                    "response": {"created": 10, "usage": {"completion_tokens": 3}},
                },
            },
            {**CHAT[3], "extra": {"timestamp": 13.0, "returncode": 0}},
            {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted"}},
        ],
    },
    "swe-agent": {
        "environment": "main",
        "trajectory": [
            {
                "action": "ls",
                "observation": "README.md",
                "response": "I look.",
                "thought": "I look.",
                "execution_time": 0.5,
                "state": "{}",
            },
            {"action": "submit", "observation": "diff", "response": "Done.", "thought": "Done.", "state": {}},
        ],
        "history": [
            {"role": "system", "content": "SETTING", "agent": "main"},
            {"role": "user", "content": "demo", "agent": "main", "is_demo": True},
            {"role": "user", "content": "ISSUE:\nit breaks\n\nINSTRUCTIONS:\nfix it", "agent": "main"},
            {"role": "assistant", "content": "I look.", "action": "ls", "agent": "main"},
            {"role": "user", "content": "README.md\n(cwd)", "agent": "main"},
            {"role": "assistant", "content": "Done.", "action": "submit", "agent": "main"},
        ],
        "info": {"exit_status": "submitted", "submission": "diff"},
        "replay_config": '{"problem_statement": {"id": "owner__repo-1"}, "agent": {"model": {"name": "gpt"}}}',
    },
    "atif": {
        "schema_version": "ATIF-v1.6",
        "session_id": "s1",
        "agent": {"name": "a", "version": "1", "model_name": "m", "tool_definitions": TOOLS},
        "steps": [
            {"step_id": 1, "source": "system", "message": "Be brief."},
            {"step_id": 2, "source": "user", "message": "List the files."},
            {
                "step_id": 3,
                "source": "agent",
                "message": "",
                "reasoning_content": "I look.",
                "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}],
                "observation": {"results": [{"source_call_id": "c1", "content": "README.md"}]},
                "metrics": {"prompt_tokens": 9, "completion_tokens": 3, "cost_usd": 0.1},
            },
            {"step_id": 4, "source": "agent", "message": "README.md"},
        ],
        "final_metrics": {"total_steps": 4},
    },
    "tau2-bench": {
        "info": {
            "agent_info": {"implementation": "llm_agent", "llm": "m"},
            "environment_info": {"domain_name": "telecom", "policy": "Be kind."},
        },
        "tasks": [
            {
                "id": "t1",
                "user_scenario": {"instructions": {"reason_for_call": "no signal"}},
                "evaluation_criteria": {"actions": []},
            }
        ],
        "simulations": [
            {
                "id": "s1",
                "task_id": "t1",
                "trial": 0,
                "termination_reason": "user_stop",
                "reward_info": {"reward": 1.0},
                "messages": [
                    {"role": "assistant", "content": "Hello.", "turn_idx": 0},
                    {"role": "user", "content": "No signal.", "turn_idx": 1},
                    {
                        "role": "assistant",
                        "content": None,
                        "tool_calls": [{"id": "c1", "name": "look", "arguments": {"n": 1}, "requestor": "assistant"}],
                        "usage": {"prompt_tokens": 9, "completion_tokens": 3},
                    },
                    {"id": "c1", "role": "tool", "content": "no line", "requestor": "assistant", "error": True},
                    {"role": "assistant", "content": "Restart it."},
                    {
                        "role": "user",
                        "content": None,
                        "tool_calls": [{"id": "u1", "name": "restart", "arguments": {}, "requestor": "user"}],
                    },
                    {"id": "u1", "role": "tool", "content": "restarted", "requestor": "user"},
                    {"role": "user", "content": "It works. ###STOP###"},
                ],
            }
        ],
    },
    "inspect": {
        "version": 2,
        "status": "success",
        "eval": {"run_id": "r", "task": "ctf", "model": "m", "tags": ["nightly"]},
        "samples": [
            {
                "id": 7,
                "epoch": 2,
                "input": "attachment://ab",
                "target": "flag",
                "messages": [
                    {"id": "m1", "role": "user", "content": "attachment://ab", "source": "input"},
                    {
                        "id": "m2",
                        "role": "assistant",
                        "content": [{"type": "reasoning", "reasoning": "I look."}, {"type": "text", "text": "Well."}],
                        "tool_calls": [
                            {"id": "c1", "function": "bash", "arguments": {"cmd": "ls"}, "type": "function"}
                        ],
                    },
                    {
                        "role": "tool",
                        "tool_call_id": "c1",
                        "function": "bash",
                        "content": "",
                        "error": {"type": "timeout", "message": "Too slow."},
                    },
                    {"role": "assistant", "content": "flag"},
                ],
                "scores": {"includes": {"value": "C", "answer": "flag"}},
                "events": [
                    {
                        "event": "model",
                        "tools": [{"name": "bash", "description": "run", "parameters": {"type": "object"}}],
                        "output": {
                            "choices": [{"message": {"id": "m2"}}],
                            "usage": {"input_tokens": 5, "input_tokens_cache_read": 4, "output_tokens": 3},
                        },
                        "working_time": 1.5,
                    }
                ],
                "output": {"choices": [{"stop_reason": "stop"}]},
                "attachments": {"ab": "Find the flag."},
            }
        ],
    },
    "intercode": {
        "0": {
            "environment": "ic_bash",
            "dataset": "./data/set_1.json",
            "task_id": 0,
            "query": "List the files.",
            "turn_history": {
                "thoughts": ["I look."],
                "actions": ["ls", "submit"],
                "observations": ["README.md"],
                "rewards": [0.5, 1],
                "valid_action": [True, True],
            },
            "summary": {"max_reward": 1.0, "turns_taken": 2},
        }
    },
    "who-and-when": {
        "history": [
            {"role": "human", "content": "How many?"},
            {"role": "Orchestrator (-> Coder)", "content": "Count them."},
            {"role": "Coder", "content": "```sh\nls | wc -l\n```"},
            {"role": "ComputerTerminal", "content": "3"},
            {"role": "Orchestrator (thought)", "content": "It is 4."},
        ],
        "question": "How many?",
        "question_ID": "q1",
        "ground_truth": "3",
        "is_corrected": False,
        "mistake_agent": "Orchestrator",
        "mistake_step": "4",
        "mistake_reason": "It misread the number.",
    },
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
    "prompt-response": {"instruction": "Add.", "input": "2 and 2", "output": "4", "score": 1, "seed": 3},
    "wrapped": {"config": {"n": 1}, "results": [{"messages": CHAT, "reward": 1}]},
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
}
