"""Normalizes chat messages from the many forms in logs to OpenAI's, with tool calls that have ids.

Normalized are: tool calls as JSON strings or flat objects, doubly encoded arguments, calls and results without ids (matched by order),
the legacy `function_call` and role `function`, typed content parts of Anthropic and others, the various keys of reasoning and
of speakers (`roles`), and calls and reasoning that are separate entries.
Left unchanged: every text, every argument, the order of messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from apps.common.nested_json import Unreadable, decode_result
from apps.ingest.normalization.fields import first_of, prompt_key, prompt_of
from apps.ingest.normalization.parts import UNREADABLE, call_of, kind_of, reasoning_of, result_of, turns_in
from apps.ingest.normalization.roles import CALL, REASONING, normalized
from apps.ingest.records import BadRow, Json, Message, StepRecord, TaskRecord, TrajectoryRecord
from contract import jsontext
from contract.messages import EXPECTED_CONTENT, EXPECTED_ROLES, ROLES

NOT_LEARNED = {
    **dict.fromkeys(("loss", "train", "training", "trainable"), (False,)),
    **dict.fromkeys(("weight", "loss_mask", "loss_weight"), (0,)),
}
"""Keys and values with which data sets mark an assistant turn as excluded from training."""

TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
OF_PARTS = frozenset(
    {
        "type",
        "text",
        "kind",
        "image",
        "image_url",
        "document",
        "video",
        "json",
        "inlineData",
        "inline_data",
        "fileData",
        "file_data",
    }
)
"""Keys of which a message's part has at least one."""
REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")

MESSAGE_KEYS = frozenset(
    {"role", "content", "tool_calls", "name", "refusal", "audio", "function_call", *REASONING_KEYS}
)
"""Keys that make up an assistant message; all others go to the step's `info`."""

ASIDE = frozenset({"role", "name", "id", "tool_call_id", "call_id", "model", "timestamp", "created_at", "status"})
"""Metadata keys, which never hold message text."""


MAX_OPEN = 1000
"""The most recent calls kept waiting for results, since each result searches them. A result with a call id doesn't need them."""


class Conversation:
    """Takes messages one by one and splits them into steps: a step ends with each assistant message."""

    def __init__(self) -> None:
        self.steps: list[StepRecord] = []
        self.waiting: list[Message] = []
        self._unanswered: deque[tuple[str, str]] = deque(maxlen=MAX_OPEN)
        """The latest turn's calls without a result, as (call id, tool name) in call order."""
        self._left_open: deque[tuple[str, str]] = deque(maxlen=MAX_OPEN)
        """Those of earlier turns: often, one result answered several calls, or only the first of them was executed."""
        self._calls = 0
        self._is_thinking = False  # the last entry was reasoning alone

    @property
    def opening(self) -> list[Message]:
        """The messages before the agent's first turn."""
        return self.steps[0].context if self.steps else self.waiting

    def trajectory(
        self,
        *,
        task_messages: list[Message] | None = None,
        environment: str = "",
        tools: list[Json] | None = None,
        policy: str = "",
        id: str = "",
        info: dict[str, Json] | None = None,
    ) -> TrajectoryRecord:
        """This chat's trajectory, for sources that name no task: the task is derived from `task_messages`, by default the opening."""
        task_messages = self.opening if task_messages is None else task_messages
        return TrajectoryRecord(
            task=TaskRecord(
                key=prompt_key(task_messages), instruction=prompt_of(task_messages), environment=environment
            ),
            steps=self.steps,
            closing=self.waiting,
            tools=tools or [],
            policy=policy or None,
            id=id,
            info=info or {},
        )

    def add(self, entry: Json) -> StepRecord | None:
        """Add the next message. Returns the step it completes, if it's an assistant message. Raises BadRow."""
        if type(entry) is not dict:
            raise BadRow(
                f"A message is {jsontext.describe(entry)}.", "Each message is an object with `role` and `content`."
            )
        entry = normalized(entry)
        role = entry.get("role")
        if type(role) is str and role in (CALL, REASONING):
            return self._part_of_a_turn(role, entry)
        if "content" not in entry and type(role) is str and role in ROLES:
            _refuse_silence(entry)
        if role == "assistant":
            return self._interrupted(entry) if _results_in(entry) else self._turn(entry)
        if role == "tool":
            self.waiting += map(self._tool_result, _results_in(entry) or [entry])
        elif type(role) is str and role in ROLES:
            self._add_to_agent(entry)
        else:
            raise BadRow(f"A message has the role {_quoted(role)}.", EXPECTED_ROLES)
        return None

    def become_context(self, count: int | None = None) -> None:
        """Make the first `count` turns, or everything so far, context of the next turn: the policy wrote none of it."""
        count = len(self.steps) if count is None else count
        others, self.steps = self.steps[:count], self.steps[count:]
        messages = [message for step in others for message in (*step.context, step.message)]
        if self.steps:
            self.steps[0].context = messages + self.steps[0].context
        else:
            self.waiting, self._is_thinking = messages + self.waiting, False

    def _interrupted(self, entry: Message) -> StepRecord | None:
        """Add an assistant message that contains tool results. Returns the last of its steps."""
        step = None
        for message in turns_in(entry):
            if message["role"] == "tool":
                self.waiting.append(self._tool_result(message))
            else:
                step = self._turn(message)
        return step

    def _turn(self, message: Message) -> StepRecord | None:
        step = self._assistant(message)
        if self._is_thinking and not self.waiting:
            thought = self.steps.pop()
            step.context = thought.context
            reasoning = [part.message.get("reasoning_content") for part in (thought, step)]
            if any(reasoning):  # it's empty if a provider withholds it
                step.message["reasoning_content"] = "\n\n".join(filter(None, reasoning))
        self._is_thinking = False
        if any(message.get(key) in values for key, values in NOT_LEARNED.items()):
            # Marked as not for training by the data set's author: a demonstration, or a prompt in the form of a chat.
            mark: Message = {key: message[key] for key in NOT_LEARNED if key in message}
            self.waiting = [*step.context, {**step.message, **mark}]
            return None
        self.steps.append(step)
        self.waiting = []
        return step

    def _part_of_a_turn(self, role: str, entry: Message) -> StepRecord | None:
        """Add a separate call or reasoning entry: it belongs to the same turn as adjacent entries with no message in between."""
        if role == REASONING:
            step = self._turn({"role": "assistant", "content": None, "reasoning_content": _thought(entry["content"])})
            self._is_thinking = True
            return step
        calls = _calls_in(entry)
        if not self.steps or self.waiting or self._is_thinking:
            step = self._turn({"role": "assistant", "content": None, "tool_calls": calls})
        else:
            step, message = None, self.steps[-1].message
            message.setdefault("tool_calls", []).extend([self._call(call) for call in calls])
        if entry.get("answered") is not None:
            answer = {"role": "tool", "tool_call_id": self._unanswered[-1][0], "content": entry["answered"]}
            self.waiting.append(self._tool_result(answer))
        return step

    def _assistant(self, entry: Message) -> StepRecord:
        message: Message = {"role": "assistant", "content": entry.get("content")}
        info: dict[str, Json] = {}
        for key, value in entry.items():
            is_unread = key not in MESSAGE_KEYS or (key in REASONING_KEYS and type(value) is not str)
            if is_unread and value is not None:
                info[key] = value
        for key in ("name", "refusal", "audio"):
            if entry.get(key) is not None:
                message[key] = entry[key]
        if not message["content"] and type(message.get("refusal")) is str:  # a model that refuses says so there instead
            message["content"] = message.pop("refusal")
        for key in REASONING_KEYS:
            if type(entry.get(key)) is str and entry[key]:
                message["reasoning_content"] = entry[key]
                break
        calls: list[Json] = _list(entry.get("tool_calls"), "tool_calls")
        if entry.get("function_call") and not calls:
            calls = [entry["function_call"]]
        if type(message["content"]) is list:
            calls = calls + _split_parts(message)
        elif message["content"] is not None and type(message["content"]) is not str:
            raise BadRow(f"An assistant's `content` is {jsontext.describe(message['content'])}.", EXPECTED_CONTENT)
        if calls:
            if self.waiting:  # something came back since the last turn
                self._left_open.extend(self._unanswered)
                self._unanswered.clear()
            message["tool_calls"] = [self._call(call) for call in calls]
        return StepRecord(context=self.waiting, message=message, info=info)

    def _call(self, entry: Json) -> Json:
        call = normal_call(entry)
        if not call["id"]:
            call["id"] = f"call_{self._calls}"
        self._calls += 1
        self._unanswered.append((call["id"], call["function"]["name"]))
        return call

    def _tool_result(self, entry: Message) -> Message:
        name = entry.get("name")
        identifier = self._answered(entry, name if type(name) is str else "")
        message: Message = {"role": "tool", "tool_call_id": identifier} if identifier else {"role": "tool"}
        if name:
            message["name"] = name
        content = entry.get("content")
        message["content"] = _as_text(content) if _is_data(content) else _content(content)
        if entry.get("is_error") or entry.get("error"):
            message["is_error"] = True
            if not message["content"]:
                message["content"] = _as_text(entry.get("error"))
        return message

    def _answered(self, message: Message, name: str) -> str:
        """Remove a call from the open ones. A result without a call id answers the first open call (of its tool, if it has a name) of the latest
        turn, or else of earlier ones."""
        identifier = message.get("tool_call_id") or message.get("call_id")
        if not identifier and type(message.get("tool_call_ids")) is list and message["tool_call_ids"]:  # SWE-agent
            identifier = message["tool_call_ids"][0]
        open_calls = (self._unanswered, self._left_open)
        if not identifier and any(call[0] == message.get("id") for calls in open_calls for call in calls):
            identifier = message["id"]  # tau2; elsewhere `id` is the message's id
        if type(identifier) is int:
            identifier = str(identifier)  # as `normal_call` has it
        if type(identifier) is str and identifier:
            for calls in open_calls:
                for call in [call for call in calls if call[0] == identifier]:
                    calls.remove(call)
            return identifier
        for calls in open_calls:
            for call in calls:
                if not name or call[1] == name:
                    calls.remove(call)
                    return call[0]
        return ""

    def _add_to_agent(self, entry: Message) -> None:
        """Add a message to the agent. Anthropic's and other logs put tool results inside user messages: each becomes a message of its own."""
        content = entry.get("content")
        if type(content) is str:
            self.waiting.append({key: value for key, value in entry.items() if value is not None})
            return
        message = {key: value for key, value in entry.items() if value is not None and key != "content"}
        if type(content) is list:
            results = _results_in(entry)
            self.waiting += map(self._tool_result, results)
            content = [part for part in content if not result_of(part)] if results else content
            if results and not content:
                return
        self.waiting.append({**message, "content": _content(content)})


def _results_in(message: Message) -> list[Message]:
    """The tool results among a message's parts, as messages."""
    content = message.get("content")
    return [result for part in content if (result := result_of(part))] if type(content) is list else []


def _refuse_silence(message: Message) -> None:
    """Refuse text under an unknown key, which would be lost silently. Raises BadRow."""
    if not MESSAGE_KEYS.isdisjoint(message.keys() - {"role", "name"}):
        return
    unread = [key for key, value in message.items() if key not in ASIDE and type(value) in (str, list, dict) and value]
    if unread:
        keys = ", ".join(f"`{key[:40]}`" for key in unread[:6])
        raise BadRow(f"A message of the {message['role']} has no `content`; it has {keys}.", EXPECTED_CONTENT)


def to_steps(messages: Iterable[Json]) -> Conversation:
    """Split a chat into steps; what follows the last assistant message is in `waiting`. Raises BadRow."""
    conversation = Conversation()
    for message in messages:
        conversation.add(message)
    return conversation


def normal_call(entry: Json) -> dict[str, Any]:
    """One tool call as {id, type, function: {name, arguments}}; a missing id is "". Raises BadRow."""
    call = entry
    for _ in range(2):  # may be doubly encoded
        if type(call) is str:
            call = _decoded(call)
    if type(call) is not dict:
        raise BadRow(f"A tool call is {jsontext.describe(call)}.", EXPECTED_CALL)
    function = call.get("function")
    if type(function) is str:  # Inspect: the name is beside its arguments
        function = {"name": function, "arguments": call.get("arguments")}
    elif type(function) is not dict:
        function = call
    name = function.get("name")
    if type(name) is not str or not name:
        raise BadRow("A tool call has no function name.", EXPECTED_CALL)
    arguments = first_of(function, "arguments", "args", "input", "parameters")
    if arguments is None:
        arguments = "{}"
    if type(arguments) is str and arguments.startswith('"'):
        inner = _decoded(arguments)
        arguments = inner if type(inner) is str else arguments
    # In OpenAI's Responses, which have both, `id` is the item's.
    identifier = first_of(call, "call_id", "tool_call_id", "id") or ""
    return {"id": str(identifier), "type": "function", "function": {"name": name, "arguments": arguments}}


EXPECTED_CALL = 'A tool call is {"id": …, "type": "function", "function": {"name": …, "arguments": …}}.'


def _calls_in(message: Message) -> list[Json]:
    """The calls of a call entry: the entry itself, or its content as JSON or a Python literal. Raises BadRow."""
    calls = message.get("content")
    if not calls:
        return [message]
    if type(calls) is str:
        written = calls.strip().removeprefix("<tool_call>").removesuffix("</tool_call>")
        try:
            calls = _decoded(written)
            calls = decode_result(written) if type(calls) is str else calls
        except Unreadable:
            raise BadRow("A function call's value is not JSON.", 'Such as {"name": …, "arguments": {…}}.') from None
    return calls if type(calls) is list else [calls]


def _thought(value: Json) -> str:
    """Reasoning as text, including from a summary in parts."""
    if type(value) is list:
        return "\n\n".join(
            _as_text(first_of(part, "text", "content") if type(part) is dict else part) for part in value
        )
    return _as_text(value)


def tool_schemas(value: Json) -> list[Json]:
    """The tools offered to the policy as OpenAI function schemas, from a list, a JSON string of one, or bare functions."""
    tools = _decoded(value) if type(value) is str else value
    if type(tools) is dict:
        tools = [tools]
    if type(tools) is not list:
        return []
    return [_tool_schema(tool) for tool in tools if type(tool) in (dict, str)]


def _tool_schema(tool: Json) -> Json:
    tool = _decoded(tool) if type(tool) is str else tool
    if type(tool) is dict and "function" not in tool and "name" in tool:
        if "input_schema" in tool:  # Anthropic
            return {
                "type": "function",
                "function": {
                    "name": tool["name"],
                    "description": tool.get("description", ""),
                    "parameters": tool["input_schema"],
                },
            }
        return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}
    return tool


def _split_parts(message: Message) -> list[Json]:
    """Remove reasoning and calls from an assistant's typed parts and return the calls. The remaining parts are its content.

    Consecutive texts are one: models write them without a break, and APIs split them where a citation or a chunk begins.
    """
    calls: list[Json] = []
    reasoning: list[str] = []
    rest: list[Json] = []
    is_text_before = False
    for part in message["content"]:
        kind, is_text_after, is_text_before = kind_of(part), is_text_before, False
        if kind in UNREADABLE:
            continue
        if (thought := reasoning_of(part)) is not None:
            reasoning.append(thought)
        elif (call := call_of(part)) is not None:
            calls.append(call)
        elif (text := _text_in(part)) is None:
            rest.append(part)
        else:
            if is_text_after:
                rest[-1] += text
            else:
                rest.append(text)
            is_text_before = True
    if reasoning and "reasoning_content" not in message:
        message["reasoning_content"] = "\n\n".join(filter(None, reasoning))
    message["content"] = _content(rest) if rest else None if calls else ""
    return calls


def _content(value: Json) -> Json:
    """Text stays text; a list with a single text part becomes that text; other lists keep their parts; a bare JSON value is serialized."""
    if type(value) is str:
        return value
    if value is None:
        return ""
    if type(value) is not list or not all(type(part) in (dict, str) for part in value):
        return _as_text(value)
    parts = [{"type": "text", "text": part} if type(part) is str else _part(part) for part in value]
    if not parts:
        return ""
    if len(parts) == 1 and parts[0].get("type") == "text" and type(parts[0].get("text")) is str:
        return parts[0]["text"]
    return parts


def _is_data(value: Json) -> bool:
    """Whether a tool returned a list of objects, rather than parts of a message."""
    return (
        type(value) is list and bool(value) and all(type(item) is dict and OF_PARTS.isdisjoint(item) for item in value)
    )


def _text_in(part: Json) -> str | None:
    """The text of a text part; None for any other part."""
    if type(part) is not dict:
        return part if type(part) is str else None
    text_part = _part(part)
    return text_part["text"] if text_part.get("type") == "text" else None


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """A text part in OpenAI's form, also of a refusal; any other part unchanged."""
    kind = kind_of(part)
    if kind in TEXT_PARTS or (not kind and "text" in part):
        return {"type": "text", "text": _as_text(part.get("text", part.get("value")))}
    if kind == "logs" and type(part.get("logs")) is str:  # of OpenAI's code interpreter
        return {"type": "text", "text": part["logs"]}
    if kind == "refusal" and type(part.get("refusal")) is str:
        return {"type": "text", "text": part["refusal"]}
    return part


def _as_text(value: Json) -> str:
    if type(value) is str:
        return value
    return "" if value is None else jsontext.dumps(value).decode()


def _decoded(text: str) -> Json:
    """A JSON string's value, or the string itself if it isn't JSON."""
    try:
        return jsontext.parse(text)
    except jsontext.UnreadableJSON:
        return text


def _list(value: Json, name: str) -> list[Json]:
    if value is None:
        return []
    if type(value) is str:
        value = _decoded(value)
    if type(value) is not list:
        raise BadRow(f"`{name}` is {jsontext.describe(value)}.", f"`{name}` is a list, or absent.")
    return value


def _quoted(value: Json) -> str:
    text = value if type(value) is str else _as_text(value) or "(none)"
    return f"“{text[:60]}”"
