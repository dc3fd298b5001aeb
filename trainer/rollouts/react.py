"""Tool calls as plain text, for models and servers without tool calling (ReAct; Yao et al., 2022).

The chat that a model sees is rewritten: tools are described in the system message, calls and results become text. Its output is parsed,
so that environments, records, and replays use the usual messages. The original text is kept in the step's info.
"""

import json
import re
from dataclasses import replace
from typing import Any, NamedTuple

from contract.messages import Message, ToolSchema
from contract.trajectory import Task
from trainer.environments.tools import comma
from trainer.rollouts.policy import Agent, Policy, Turn

STOP = "\nObservation:"
"""Stop sequence: a model that continued would make up the result."""
HOW = """You can use these tools:
{tools}

To use one, write exactly:
Thought: why
Action: the tool's name
Action Input: its arguments as one JSON object

Then wait for the line that begins with Observation. When nothing is left to do, write:
Thought: why
Final Answer: what you have to say"""
ACTION = re.compile(r"^Action:", re.MULTILINE)
INPUT = re.compile(r"^Action Input:", re.MULTILINE)
FINAL = re.compile(r"^Final Answer:\s*(?P<answer>.*)\Z", re.MULTILINE | re.DOTALL)
MARKED = re.compile(r"^(Thought|Action):", re.MULTILINE)


class ReactPolicy:
    """Wraps a policy to call tools in plain text."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.name = policy.name

    @property
    def away(self) -> str:
        return self._policy.away

    async def ready(self) -> None:
        await self._policy.ready()

    def begin(self, task: Task, seed: int) -> "ReactAgent":
        return ReactAgent(self._policy.begin(task, seed))

    async def close(self) -> None:
        await self._policy.close()


class ReactAgent:
    """One episode in plain text."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._turns = 0

    async def act(self, chat: list[Message], tools: list[ToolSchema], *, max_tokens: int) -> Turn:
        self._turns += 1
        turn = await self._agent.act(in_text(chat, tools), [], max_tokens=max_tokens)
        text = str(turn.message.get("content") or "")
        message, error = read_turn(text, call_id=f"call_{self._turns}", reasoning=turn.message.get("reasoning_content"))
        return replace(turn, message=message, error=turn.error or error, info={**turn.info, "text": text})


def in_text(chat: list[Message], tools: list[ToolSchema]) -> list[Message]:
    """The chat without tool messages: tools in the system message, calls and results as text."""
    how = HOW.format(tools="\n".join(map(described, tools))) if tools else ""
    system = "\n\n".join([*(str(message["content"]) for message in chat if message["role"] == "system"), how]).strip()
    flattened: list[Message] = [{"role": "system", "content": system}] if system else []
    for message in chat:
        if message["role"] == "assistant":
            flattened.append({"role": "assistant", "content": as_text(message)})
        elif message["role"] != "system":
            text = f"Observation: {message['content']}" if message["role"] == "tool" else str(message["content"])
            if flattened and flattened[-1]["role"] == "user":
                flattened[-1] = {"role": "user", "content": f"{flattened[-1]['content']}\n{text}"}
            else:
                flattened.append({"role": "user", "content": text})
    return flattened


def described(tool: ToolSchema) -> str:
    """send(file: string, address: string): Send a file. file: the file's id; …"""
    function = tool["function"]
    properties: dict[str, Any] = function.get("parameters", {}).get("properties", {})
    required = function.get("parameters", {}).get("required", [])
    signature = comma(
        f"{name}{'' if name in required else '?'}: {kind_of(schema)}" for name, schema in properties.items()
    )
    notes = "; ".join(
        f"{name}: {schema['description']}" for name, schema in properties.items() if "description" in schema
    )
    return f"- {function['name']}({signature}): {function.get('description', '')}" + (f" {notes}" if notes else "")


def kind_of(schema: dict[str, Any]) -> str:
    return " | ".join(map(json.dumps, schema["enum"])) if "enum" in schema else str(schema.get("type", "any"))


def as_text(message: Message) -> str:
    """An assistant message as the model would have written it."""
    content = str(message.get("content") or "")
    if not message.get("tool_calls") and MARKED.search(content):  # unparsable output is kept unchanged
        return content
    thought = (content if message.get("tool_calls") else "") or message.get("reasoning_content")
    lines = [f"Thought: {thought}"] if thought else []
    for call in message.get("tool_calls") or []:
        arguments = call["function"]["arguments"]
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        lines += [f"Action: {call['function']['name']}", f"Action Input: {written}"]
    if not message.get("tool_calls"):
        lines.append(f"Final Answer: {content}")
    return "\n".join(lines)


def read_turn(text: str, *, call_id: str, reasoning: str | None = None) -> tuple[Message, str | None]:
    """Parse the text into a message, and an error if it's neither a call nor an answer.

    A thought before a call becomes the content. Arguments that aren't a JSON object are kept
    unchanged, for the environment to refuse. An unmarked answer is also accepted.
    """
    written = text.split(STOP)[0].strip()
    call, final = _call_in(written), FINAL.search(written)
    begin = min(
        (position for position in (call and call.begin, final and final.start()) if position is not None), default=None
    )
    thought = written[:begin].strip().removeprefix("Thought:").strip() if begin is not None else ""
    message: Message = {"role": "assistant", "content": thought} | (
        {"reasoning_content": reasoning} if reasoning else {}
    )
    if begin is None:
        if MARKED.search(written):
            return {**message, "content": text}, "after Thought comes Action and Action Input, or Final Answer"
        return {**message, "content": written}, None
    if call is None or call.begin > begin:
        thoughts = "\n".join(part for part in (reasoning, thought) if part)
        answer = final["answer"].strip() if final else ""
        return {**message, "content": answer} | ({"reasoning_content": thoughts} if thoughts else {}), None
    function = {"name": call.tool, "arguments": object_in(call.arguments)}
    return {**message, "tool_calls": [{"id": call_id, "type": "function", "function": function}]}, None


class WrittenCall(NamedTuple):
    """A call and its position in a text."""

    begin: int
    tool: str
    arguments: str


def _call_in(text: str) -> WrittenCall | None:
    """The first call. Its two markers are searched one after the other: a single pattern for both would backtrack quadratically."""
    action = ACTION.search(text)
    argument_marker = INPUT.search(text, action.end()) if action else None
    if action is None or argument_marker is None:
        return None
    tool = text[action.end() : argument_marker.start()].removesuffix("\n").strip(" \t")
    return WrittenCall(action.start(), tool, text[argument_marker.end() :].lstrip(" \t"))


def object_in(text: str) -> Any:
    """The JSON object at the start of the text, ignoring what follows; otherwise the text."""
    begin = text.find("{")
    if begin < 0:
        return text.strip()
    try:
        value, _ = json.JSONDecoder().raw_decode(text[begin:])
    except (ValueError, RecursionError):
        return text.strip()
    return value
