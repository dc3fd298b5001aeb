"""Chat messages, in the many spellings that logs hold, made into one: OpenAI's, with tool calls that have ids.

What is normalized: tool calls as JSON strings or flat objects, arguments encoded twice, calls and results without ids (matched by order),
the legacy `function_call` and role `function`, typed content parts of Anthropic and others, reasoning under its various keys, speakers under
theirs (`speakers`), calls and reasoning that are entries of their own.
What is left as it was produced: every text, every argument, the order of messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from apps.common.nested_json import Unreadable, decode_result
from apps.ingest.normalization.fields import first_of, prompt_key, prompt_of
from apps.ingest.normalization.parts import call_of, kind_of, result_of, turns_in
from apps.ingest.normalization.roles import CALL, REASONING, spelled
from apps.ingest.records import BadRow, Json, Message, StepRecord, TaskRecord, TrajectoryRecord
from contract import jsontext
from contract.messages import EXPECTED_CONTENT, EXPECTED_ROLES, ROLES

NOT_LEARNT = {
    **dict.fromkeys(("loss", "train", "training", "trainable"), (False,)),
    **dict.fromkeys(("weight", "loss_mask", "loss_weight"), (0,)),
}
"""What data sets write beside an assistant's turn that is not to be learned: keys, and their values that say so."""

TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
REASONING_PARTS = frozenset({"reasoning", "thinking"})
REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")

MESSAGE_KEYS = frozenset(
    {"role", "content", "tool_calls", "name", "refusal", "audio", "function_call", *REASONING_KEYS}
)
"""Keys of an assistant message that are the message; whatever else stands beside them goes to the step's `info`."""

ASIDE = frozenset({"role", "name", "id", "tool_call_id", "call_id", "model", "timestamp", "created_at", "status"})
"""Keys that say something of a message and never what was said."""


MOST_OPEN = 1000
"""Calls, the latest, that wait for what their tools answer: each answer looks through them. An answer that names its call needs none of them."""


class Conversation:
    """Takes messages one by one and cuts them into steps: a step ends with each assistant message."""

    def __init__(self) -> None:
        self.steps: list[StepRecord] = []
        self.waiting: list[Message] = []
        self._unanswered: deque[tuple[str, str]] = deque(maxlen=MOST_OPEN)  # (call id, tool name) in the order called
        self._calls = 0
        self._is_thinking = False  # the last entry was reasoning alone

    @property
    def opening(self) -> list[Message]:
        """What was said before the agent's first turn."""
        return self.steps[0].context if self.steps else self.waiting

    def run(
        self,
        *,
        asked: list[Message] | None = None,
        environment: str = "",
        tools: list[Json] | None = None,
        policy: str = "",
        id: str = "",
        info: dict[str, Json] | None = None,
    ) -> TrajectoryRecord:
        """The run that this chat is, of a source that names no task: its task is what was asked, which is the opening unless given."""
        asked = self.opening if asked is None else asked
        return TrajectoryRecord(
            task=TaskRecord(key=prompt_key(asked), instruction=prompt_of(asked), environment=environment),
            steps=self.steps,
            closing=self.waiting,
            tools=tools or [],
            policy=policy or None,
            id=id,
            info=info or {},
        )

    def add(self, given: Json) -> StepRecord | None:
        """Take the next message. Answers the step it completes, if it is an assistant's. Raises BadRow."""
        if type(given) is not dict:
            raise BadRow(
                f"A message is {jsontext.describe(given)}.", "Each message is an object with `role` and `content`."
            )
        given = spelled(given)
        role = given.get("role")
        if type(role) is str and role in (CALL, REASONING):
            return self._part_of_a_turn(role, given)
        if "content" not in given and type(role) is str and role in ROLES:
            _refuse_silence(given)
        if role == "assistant":
            return self._interrupted(given) if _results_in(given) else self._turn(given)
        if role == "tool":
            self.waiting += map(self._tool_result, _results_in(given) or [given])
        elif type(role) is str and role in ROLES:
            self._heard(given)
        else:
            raise BadRow(f"A message has the role {_quoted(role)}.", EXPECTED_ROLES)
        return None

    def _interrupted(self, given: Message) -> StepRecord | None:
        """An assistant's message that holds what tools answered. Answers the last of its steps."""
        step = None
        for message in turns_in(given):
            if message["role"] == "tool":
                self.waiting.append(self._tool_result(message))
            else:
                step = self._turn(message)
        return step

    def _turn(self, given: Message) -> StepRecord | None:
        step = self._assistant(given)
        if self._is_thinking and not self.waiting:
            thought = self.steps.pop()
            step.context = thought.context
            reasoning = [each.message.get("reasoning_content") for each in (thought, step)]
            if any(reasoning):  # it is empty where a provider keeps it for itself
                step.message["reasoning_content"] = "\n\n".join(filter(None, reasoning))
        self._is_thinking = False
        if any(given.get(key) in values for key, values in NOT_LEARNT.items()):
            # Who made the data says that it is not to be learned: a demonstration, or a prompt that is played as a chat.
            mark: Message = {key: given[key] for key in NOT_LEARNT if key in given}
            self.waiting = [*step.context, {**step.message, **mark}]
            return None
        self.steps.append(step)
        self.waiting = []
        return step

    def _part_of_a_turn(self, role: str, given: Message) -> StepRecord | None:
        """A call or reasoning that is an entry of its own: what follows it unheard, and what it follows, is the same turn."""
        if role == REASONING:
            step = self._turn({"role": "assistant", "content": None, "reasoning_content": _thought(given["content"])})
            self._is_thinking = True
            return step
        calls = _calls_in(given)
        if not self.steps or self.waiting or self._is_thinking:
            step = self._turn({"role": "assistant", "content": None, "tool_calls": calls})
        else:
            step, message = None, self.steps[-1].message
            message.setdefault("tool_calls", []).extend([self._call(call) for call in calls])
        if given.get("answered") is not None:
            answer = {"role": "tool", "tool_call_id": self._unanswered[-1][0], "content": given["answered"]}
            self.waiting.append(self._tool_result(answer))
        return step

    def _assistant(self, given: Message) -> StepRecord:
        message: Message = {"role": "assistant", "content": given.get("content")}
        info: dict[str, Json] = {}
        for key, value in given.items():
            if key not in MESSAGE_KEYS and value is not None:
                info[key] = value
        for key in ("name", "refusal", "audio"):
            if given.get(key) is not None:
                message[key] = given[key]
        for key in REASONING_KEYS:
            if type(given.get(key)) is str and given[key]:
                message["reasoning_content"] = given[key]
                break
        calls: list[Json] = _list(given.get("tool_calls"), "tool_calls")
        if given.get("function_call") and not calls:
            calls = [given["function_call"]]
        if type(message["content"]) is list:
            calls = calls + _split_parts(message)
        elif message["content"] is not None and type(message["content"]) is not str:
            raise BadRow(f"An assistant's `content` is {jsontext.describe(message['content'])}.", EXPECTED_CONTENT)
        if calls:
            message["tool_calls"] = [self._call(call) for call in calls]
        return StepRecord(context=self.waiting, message=message, info=info)

    def _call(self, given: Json) -> Json:
        call = normal_call(given)
        if not call["id"]:
            call["id"] = f"call_{self._calls}"
        self._calls += 1
        self._unanswered.append((call["id"], call["function"]["name"]))
        return call

    def _tool_result(self, given: Message) -> Message:
        name = given.get("name")
        identifier = self._answered(given, name if type(name) is str else "")
        message: Message = {"role": "tool", "tool_call_id": identifier} if identifier else {"role": "tool"}
        if name:
            message["name"] = name
        message["content"] = _content(given.get("content"))
        if given.get("is_error") or given.get("error"):
            message["is_error"] = True
            if not message["content"]:
                message["content"] = _as_text(given.get("error"))
        return message

    def _answered(self, given: Message, name: str) -> str:
        """Strike a call off the open ones; a result that names none answers the first open call (of its tool, if it has a name)."""
        identifier = given.get("tool_call_id") or given.get("call_id")
        if not identifier and type(given.get("tool_call_ids")) is list and given["tool_call_ids"]:  # SWE-agent
            identifier = given["tool_call_ids"][0]
        if not identifier and any(call[0] == given.get("id") for call in self._unanswered):
            identifier = given["id"]  # tau2; elsewhere `id` is the message's own
        if type(identifier) is str and identifier:
            still_open = (call for call in self._unanswered if call[0] != identifier)
            self._unanswered = deque(still_open, maxlen=MOST_OPEN)
            return identifier
        for place, (call_id, tool) in enumerate(self._unanswered):
            if not name or tool == name:
                del self._unanswered[place]
                return call_id
        return ""

    def _heard(self, given: Message) -> None:
        """A message to the agent. Logs of Anthropic and others carry tool results inside user messages: each becomes a message of its own."""
        content = given.get("content")
        if type(content) is str:
            self.waiting.append({key: value for key, value in given.items() if value is not None})
            return
        message = {key: value for key, value in given.items() if value is not None and key != "content"}
        if type(content) is list:
            results = _results_in(given)
            self.waiting += map(self._tool_result, results)
            content = [part for part in content if not result_of(part)] if results else content
            if results and not content:
                return
        self.waiting.append({**message, "content": _content(content)})


def _results_in(given: Message) -> list[Message]:
    """What tools answered, as messages, in the parts of one."""
    content = given.get("content")
    return [result for part in content if (result := result_of(part))] if type(content) is list else []


def _refuse_silence(given: Message) -> None:
    """Words under a key that is not known would be lost without a word. Raises BadRow."""
    if not MESSAGE_KEYS.isdisjoint(given.keys() - {"role", "name"}):
        return
    unread = [key for key, value in given.items() if key not in ASIDE and type(value) in (str, list, dict) and value]
    if unread:
        keys = ", ".join(f"`{key[:40]}`" for key in unread[:6])
        raise BadRow(f"A message of the {given['role']} has no `content`; it has {keys}.", EXPECTED_CONTENT)


def to_steps(messages: Iterable[Json]) -> Conversation:
    """Cut a chat into steps; what follows the last assistant message is in `waiting`. Raises BadRow."""
    conversation = Conversation()
    for message in messages:
        conversation.add(message)
    return conversation


def normal_call(given: Json) -> dict[str, Any]:
    """One tool call as {id, type, function: {name, arguments}}; its id is "" where it has none. Raises BadRow."""
    call = given
    for _ in range(2):  # a JSON string that may hold another
        if type(call) is str:
            call = _decoded(call)
    if type(call) is not dict:
        raise BadRow(f"A tool call is {jsontext.describe(call)}.", EXPECTED_CALL)
    function = call.get("function")
    if type(function) is str:  # Inspect: the name beside its arguments
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
    # OpenAI's Responses have both: `id` is the item's own there.
    identifier = first_of(call, "call_id", "tool_call_id", "id") or ""
    return {"id": str(identifier), "type": "function", "function": {"name": name, "arguments": arguments}}


EXPECTED_CALL = 'A tool call is {"id": …, "type": "function", "function": {"name": …, "arguments": …}}.'


def _calls_in(given: Message) -> list[Json]:
    """The calls of an entry that is nothing else: the entry itself, or what it says as JSON or as Python spells it. Raises BadRow."""
    calls = given.get("content")
    if calls is None:
        return [given]
    if type(calls) is str:
        written = calls.strip().removeprefix("<tool_call>").removesuffix("</tool_call>")
        try:
            calls = _decoded(written)
            calls = decode_result(written) if type(calls) is str else calls
        except Unreadable:
            raise BadRow("A function call's value is not JSON.", 'Such as {"name": …, "arguments": {…}}.') from None
    return calls if type(calls) is list else [calls]


def _thought(given: Json) -> str:
    """Reasoning as text, also from a summary in parts."""
    if type(given) is list:
        return "\n\n".join(
            _as_text(first_of(part, "text", "content") if type(part) is dict else part) for part in given
        )
    return _as_text(given)


def tool_schemas(given: Json) -> list[Json]:
    """The tools a policy was offered, as OpenAI function schemas, from a list, a JSON string of one, or bare functions."""
    tools = _decoded(given) if type(given) is str else given
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
    """Move reasoning and calls out of an assistant's typed parts; answers the calls. What remains is its content."""
    calls: list[Json] = []
    reasoning: list[str] = []
    rest: list[Json] = []
    for part in message["content"]:
        kind = kind_of(part)
        if kind in REASONING_PARTS or (type(part) is dict and part.get("thought") is True):  # Gemini
            reasoning.append(
                _as_text(part.get("thinking", part.get("reasoning", part.get("text", part.get("value", "")))))
            )
        elif (call := call_of(part)) is not None:
            calls.append(call)
        else:
            rest.append(part)
    if reasoning and "reasoning_content" not in message:
        message["reasoning_content"] = "\n\n".join(reasoning)
    message["content"] = _content(rest) if rest else None if calls else ""
    return calls


def _content(given: Json) -> Json:
    """Text stays text; a list of one text part is its text; other lists keep their parts; a bare JSON value is written out."""
    if type(given) is str:
        return given
    if given is None:
        return ""
    if type(given) is not list or not all(type(part) in (dict, str) for part in given):
        return _as_text(given)
    parts = [{"type": "text", "text": part} if type(part) is str else _part(part) for part in given]
    if not parts:
        return ""
    if len(parts) == 1 and parts[0].get("type") == "text" and type(parts[0].get("text")) is str:
        return parts[0]["text"]
    return parts


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """A text part in OpenAI's spelling; any other part as it is."""
    kind = kind_of(part)
    if kind in TEXT_PARTS or (not kind and "text" in part):
        return {"type": "text", "text": _as_text(part.get("text", part.get("value")))}
    return part


def _as_text(value: Json) -> str:
    if type(value) is str:
        return value
    return "" if value is None else jsontext.dumps(value).decode()


def _decoded(text: str) -> Json:
    """A JSON string's value, or the string itself where it is not JSON."""
    try:
        return jsontext.parse(text)
    except jsontext.UnreadableJSON:
        return text


def _list(given: Json, name: str) -> list[Json]:
    if given is None:
        return []
    if type(given) is str:
        given = _decoded(given)
    if type(given) is not list:
        raise BadRow(f"`{name}` is {jsontext.describe(given)}.", f"`{name}` is a list, or absent.")
    return given


def _quoted(value: Json) -> str:
    text = value if type(value) is str else _as_text(value) or "(none)"
    return f"“{text[:60]}”"
