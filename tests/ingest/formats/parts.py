"""Building blocks for examples of several formats."""

CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "List the files."}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "README.md"},
    {"role": "assistant", "content": "README.md", "reasoning_content": "Only one."},
]
TOOLS = [{"type": "function", "function": {"name": "bash", "description": "run", "parameters": {"type": "object"}}}]

ASKED = {"role": "user", "content": "List the files."}
LOOK = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": {"command": "ls"}}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [LOOK]}
HEARD = {"role": "tool", "tool_call_id": "c1", "content": "README.md"}
DONE = {"role": "assistant", "content": "One."}
WRITTEN = "I add.\n```py\n1 + 1\n```"
