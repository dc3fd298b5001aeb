"""A small, whole record of each format."""

from typing import Any

from tests.ingest.formats.conversations import CONVERSATIONS
from tests.ingest.formats.frameworks import FRAMEWORKS
from tests.ingest.formats.parts import CHAT, TOOLS
from tests.ingest.formats.recordings import RECORDINGS

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
    "oasst": {
        "message_tree_id": "t",
        "prompt": {
            "message_id": "m1",
            "role": "prompter",
            "text": "What is 2 + 3?",
            "replies": [
                {"message_id": "m2", "role": "assistant", "text": "5", "rank": 0, "replies": []},
                {
                    "message_id": "m3",
                    "role": "assistant",
                    "text": "6",
                    "rank": 1,
                    "replies": [{"message_id": "m4", "role": "prompter", "text": "Sure?", "replies": []}],
                },
            ],
        },
    },
    "labelled-steps": {
        "problem": "What is 1 + 1 + 1?",
        "steps": ["1 + 1 is 2.", "2 + 1 is 4."],
        "label": 1,
        "generator": "m",
        "final_answer_correct": False,
    },
    "judged-pairs": {
        "id": "p1",
        "prompt": CHAT[:2],
        "chosen": CHAT[2:],
        "rejected": [{"role": "assistant", "content": "no"}],
        "tools": TOOLS,
    },
    "gemini": {
        "systemInstruction": {"role": "system", "parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "How warm is it in Rome?"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "I look it up.", "thought": True},
                    {"functionCall": {"name": "weather", "args": {"city": "Rome"}}},
                ],
            },
            {"role": "user", "parts": [{"functionResponse": {"name": "weather", "response": {"celsius": 21}}}]},
            {"role": "model", "parts": [{"text": "21 °C."}]},
        ],
        "tools": [{"functionDeclarations": [{"name": "weather", "parameters": {"type": "object"}}]}],
    },
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
    "prompt-response": {"instruction": "Add.", "input": "2 and 2", "output": "4", "score": 1, "seed": 3},
    "wrapped": {"config": {"n": 1}, "results": [{"messages": CHAT, "reward": 1}]},
    "bfcl": {
        "id": "multi_turn_base_0",
        "result": [[["cd"]]],
        "inference_log": [
            [{"role": "state_info", "class_name": "Files", "content": {}}],
            {
                "begin_of_turn_query": [{"role": "user", "content": "Go there."}],
                "step_1": [{"role": "assistant", "content": "Done."}],
                "step_0": [
                    {"role": "inference_input", "content": {}},
                    {"role": "assistant", "content": [{"cd": '{"folder": "a"}'}]},
                    {"role": "handler_log", "content": "decoded"},
                    {"role": "tool", "content": "in a"},
                ],
            },
        ],
    },
    "mind2web": {
        "annotation_id": "a1",
        "website": "united",
        "domain": "Travel",
        "confirmed_task": "Book a flight.",
        "action_reprs": ["[button] Go -> CLICK", "[text] From -> TYPE: Rome"],
        "actions": [
            {"action_uid": "u1", "cleaned_html": "<a>", "operation": {"op": "CLICK"}},
            {"action_uid": "u2", "cleaned_html": "<b>", "operation": {"op": "TYPE", "value": "Rome"}},
        ],
    },
    **CONVERSATIONS,
    **FRAMEWORKS,
    **RECORDINGS,
}
