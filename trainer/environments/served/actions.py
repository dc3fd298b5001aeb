"""Maps a served environment's action schema to tools, and a policy's messages to its actions.

Three kinds of servers: those whose action is a tool call ({"type": "call_tool", "tool_name", "arguments"}; their tools are listed at /mcp), those whose
action is one text (what the policy says is the action), and all others (their action schema is one tool, `act`).
"""

import json
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from contract.messages import Message, ToolSchema
from contract.outgoing.networks import AddressRefused
from contract.outgoing.replies import json_of, problem_of
from contract.outgoing.transport import http_client
from contract.values import JsonObject
from trainer.environments.tools import ToolError
from trainer.failures import ConfigFailure

SECONDS = 30.0
NOT_SHOWN = ("done", "reward", "metadata")
"""Fields of an observation that are reported in other ways."""


@dataclass(frozen=True)
class Actions:
    """How messages become actions."""

    kind: Literal["tools", "text", "act"]
    tools: list[ToolSchema]
    field: str = ""
    """The text field's name, if an action is a single text."""

    def of_call(self, tool_call: JsonObject) -> JsonObject:
        """The action of a tool call. Raises ToolError if the call isn't a valid action of the server."""
        function = tool_call.get("function") or {}
        name, arguments = function.get("name"), function.get("arguments")
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments or "{}")
            except (ValueError, RecursionError):
                raise ToolError(f"the arguments are no JSON: {arguments[:100]}") from None
        if not isinstance(arguments, dict):
            raise ToolError("the arguments must be a JSON object")
        tool_names = [tool["function"]["name"] for tool in self.tools]
        if name not in tool_names:
            raise ToolError(f"there is no tool {name!r}")
        return {"type": "call_tool", "tool_name": name, "arguments": arguments} if self.kind == "tools" else arguments

    def of_words(self, message: Message) -> JsonObject | None:
        """The action of a message without calls; None if it has none, which ends the episode."""
        return {self.field: str(message.get("content") or "")} if self.kind == "text" else None


def actions_at(address: str) -> Actions:
    """Ask a server what its actions are. Raises ConfigFailure."""
    try:
        with http_client(address, timeout=SECONDS) as client:
            schema = json_of(client.get("/schema").raise_for_status())["action"]
            properties: dict[str, Any] = schema.get("properties", {})
            if {"tool_name", "arguments"} <= properties.keys():
                request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
                listed = json_of(client.post("/mcp", json=request).raise_for_status())["result"]["tools"]
                return Actions("tools", [tool_schema(tool) for tool in listed])
    except AddressRefused as refused:
        raise ConfigFailure(f"environment: {refused}") from None
    except (httpx.HTTPError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = problem_of(error.response) if isinstance(error, httpx.HTTPStatusError) else type(error).__name__
        raise ConfigFailure(
            f"environment: {address} doesn't answer as an OpenEnv server: {problem}",
            advice="Start the server, and check the address: /schema, and /mcp where it has tools, must answer there.",
        ) from None
    texts = [name for name in schema.get("required", []) if properties.get(name, {}).get("type") == "string"]
    if texts == schema.get("required", []) and len(texts) == 1:
        return Actions("text", [], field=texts[0])
    shown = {name: schema for name, schema in properties.items() if name not in ("metadata", "type")}
    described = schema.get("description") or "Act in the environment."
    return Actions("act", [function_schema("act", described, {**schema, "properties": shown})])


def tool_schema(tool: JsonObject) -> ToolSchema:
    parameters = tool.get("inputSchema") or tool.get("input_schema") or {"type": "object", "properties": {}}
    return function_schema(tool["name"], tool.get("description") or "", parameters)


def function_schema(name: str, description: str, parameters: JsonObject) -> ToolSchema:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def as_text(observation: JsonObject) -> str:
    """An observation as text for the policy: a tool's result, a single text, or JSON."""
    shown: Any = {key: value for key, value in observation.items() if key not in NOT_SHOWN and value is not None}
    if "tool_name" in shown:
        shown = shown.get("error") or shown.get("result")
        if isinstance(shown, dict) and shown.keys() >= {"content", "data"}:  # FastMCP's wrapping of a tool's result
            shown = shown["data"]
    elif len(shown) == 1 and isinstance(text := next(iter(shown.values())), str):
        shown = text
    return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
