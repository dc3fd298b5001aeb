"""A small, whole record of each format in which programs that people chat with export what was said."""

from typing import Any


def node(name: str, parent: str | None, message: dict[str, Any] | None) -> dict[str, Any]:
    """A node of ChatGPT's tree."""
    return {"id": name, "parent": parent, "children": [], "message": message and {"id": name, **message}}


def words(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"author": {"role": role}, "content": {"content_type": "text", "parts": [text]}, "recipient": "all", **more}


NODES: list[dict[str, Any]] = [
    node("root", None, None),
    node("a", "root", words("system", "")),
    node("b", "a", words("user", "List the files.")),
    node(
        "c",
        "b",
        {
            "author": {"role": "assistant"},
            "content": {"content_type": "code", "text": '{"command": "ls"}'},
            "recipient": "bash",
            "metadata": {"model_slug": "m"},
        },
    ),
    node(
        "d",
        "c",
        {
            "author": {"role": "tool", "name": "bash"},
            "content": {"content_type": "execution_output", "text": "README.md"},
        },
    ),
    node("e", "d", words("assistant", "One.", metadata={"model_slug": "m"})),
]

DETAILS = (
    '<details type="reasoning" done="true" duration="2">\n<summary>Thought for 2 seconds</summary>\n&gt; I look.\n</details>\n'
    '<details type="tool_calls" done="true" id="c1" name="bash" arguments="{&quot;command&quot;: &quot;ls&quot;}"'
    ' result="&quot;README.md&quot;" files="">\n<summary>Tool Executed</summary>\n</details>\nOne.'
)

CONVERSATIONS: dict[str, Any] = {
    "chatgpt": {
        "title": "Files",
        "conversation_id": "v1",
        "current_node": "e",
        "mapping": {each["id"]: each for each in NODES},
    },
    "claude-ai": {
        "uuid": "v1",
        "name": "Files",
        "chat_messages": [
            {"uuid": "a", "sender": "human", "text": "List the files.", "content": [], "attachments": []},
            {
                "uuid": "b",
                "sender": "assistant",
                "text": "One.",
                "content": [
                    {"type": "tool_use", "name": "bash", "input": {"command": "ls"}},
                    {"type": "tool_result", "name": "bash", "content": [{"type": "text", "text": "README.md"}]},
                    {"type": "token_budget"},
                    {"type": "text", "text": "One.", "start_timestamp": "2025-01-01T00:00:00Z", "citations": []},
                ],
            },
        ],
    },
    "librechat": {
        "conversationId": "v1",
        "title": "Files",
        "messages": [
            {
                "messageId": "a",
                "parentMessageId": "00000000-0000-0000-0000-000000000000",
                "isCreatedByUser": True,
                "text": "List the files.",
            },
            {
                "messageId": "b",
                "parentMessageId": "a",
                "isCreatedByUser": False,
                "model": "m",
                "text": "",
                "content": [
                    {
                        "type": "tool_call",
                        "tool_call": {"id": "c1", "name": "bash", "args": '{"command": "ls"}', "output": "README.md"},
                    },
                    {"type": "text", "text": {"value": "One."}},
                ],
            },
        ],
    },
    "open-webui": {
        "id": "v1",
        "title": "Files",
        "chat": {
            "history": {
                "currentId": "b",
                "messages": {
                    "a": {"id": "a", "parentId": None, "role": "user", "content": "List the files."},
                    "b": {"id": "b", "parentId": "a", "role": "assistant", "model": "m", "content": DETAILS},
                },
            }
        },
    },
    "copilot-chat": {
        "responderUsername": "GitHub Copilot",
        "sessionId": "v1",
        "requests": [
            {
                "requestId": "r1",
                "message": {"text": "List the files.", "parts": []},
                "response": [
                    {"kind": "toolInvocationSerialized", "toolId": "bash", "invocationMessage": {"value": "Running"}},
                    {"value": "One."},
                ],
                "modelId": "copilot/m",
                "result": {
                    "metadata": {
                        "toolCallRounds": [
                            {
                                "response": "",
                                "toolCalls": [{"id": "c1", "name": "bash", "arguments": '{"command": "ls"}'}],
                            },
                            {"response": "One.", "toolCalls": []},
                        ],
                        "toolCallResults": {
                            "c1": {"content": [{"value": {"node": {"children": [{"type": 2, "text": "README.md"}]}}}]}
                        },
                    }
                },
            }
        ],
    },
}
