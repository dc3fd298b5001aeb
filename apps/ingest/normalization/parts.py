"""Message parts as APIs, SDKs, and agents write them: which are calls, and which are tool results.

Some keep tool results inside the assistant's message: Anthropic's search results, the UI messages of the Vercel AI
SDK, opencode sessions. The policy wrote none of them, so such a message is split where it was interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.normalization.fields import first_of, mapping, text
from apps.ingest.records import Json, Message

CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use", "tool_call", "function_call"})
BOUNDS = frozenset({"step-start", "step-finish"})
"""Parts that only mark the start or end of a model response."""
UNREADABLE = BOUNDS | {"redacted_thinking", "redacted-reasoning"}
"""Parts of an assistant's message without anything to read: marks, and reasoning that the provider encrypted."""
REASONING = frozenset({"reasoning", "thinking"})
FAILED = frozenset({"output-error", "error"})
ANSWERED = frozenset({"output-available", "result", "completed"})
RUNS_CODE = "code_execution"
"""Gemini's built-in tool, whose code and results are parts of the model's message."""
CODE_FAILED = frozenset({"OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED"})


def kind_of(part: Json) -> str:
    """A part's `type`, or ""."""
    kind = part.get("type") if type(part) is dict else None
    return kind if type(kind) is str else ""


def call_of(entry: Json) -> Json | None:
    """The call that a part is or contains; None otherwise."""
    part, kind = mapping(entry), kind_of(entry)
    if kind in CALLS and ("name" in part or "value" in part or "function" in part):
        return part.get("value", part)
    if type(code := first_of(part, "executable_code", "executableCode")) is dict:
        return {
            "id": code.get("id"),
            "name": RUNS_CODE,
            "arguments": {key: code.get(key) for key in ("language", "code")},
        }
    gemini = first_of(part, "function_call", "functionCall")
    if type(gemini) is dict:
        return {"id": gemini.get("id"), "name": gemini.get("name"), "arguments": first_of(gemini, "args", "arguments")}
    if kind == "toolRequest":  # goose
        value = mapping(mapping(part.get("toolCall")).get("value"))
        return {"id": part.get("id"), "name": value.get("name"), "arguments": value.get("arguments")}
    if type(bedrock := part.get("toolUse")) is dict:
        return {"id": bedrock.get("toolUseId"), "name": bedrock.get("name"), "arguments": bedrock.get("input")}
    if invocation := _invocation(part):
        return invocation[0]
    if "toolName" in part and kind in ("", "tool-call") and "output" not in part:
        return {"id": part.get("toolCallId"), "name": part["toolName"], "arguments": first_of(part, "input", "args")}
    return None


def reasoning_of(entry: Json) -> str | None:
    """The reasoning that a part is, "" if the provider encrypted it; None for any other part."""
    part = mapping(entry)
    if type(bedrock := part.get("reasoningContent")) is dict:
        return text(mapping(bedrock.get("reasoningText")).get("text"))
    if kind_of(part) not in REASONING and part.get("thought") is not True:  # Gemini
        return None
    if part.get("redacted") is True:  # Inspect, which keeps the encrypted text
        return text(part.get("summary"))
    thought = first_of(part, "thinking", "reasoning", "text", "value")
    if type(thought) is not list:
        return text(thought)
    return "".join(text(chunk["text"] if "text" in mapping(chunk) else chunk) for chunk in thought)  # Mistral


def result_of(entry: Json) -> Message | None:
    """The tool result that a part is or contains, as a message; None otherwise."""
    part, kind = mapping(entry), kind_of(entry)
    if type(ran := first_of(part, "code_execution_result", "codeExecutionResult")) is dict:
        return _answer(
            ran.get("id"), RUNS_CODE, text(ran.get("output")), is_error=text(ran.get("outcome")) in CODE_FAILED
        )
    gemini = first_of(part, "function_response", "functionResponse")
    if type(gemini) is dict:
        return _answer(gemini.get("id"), gemini.get("name"), gemini.get("response"))
    if kind.endswith("tool_result"):  # Anthropic: includes `web_search_tool_result` and the like
        return _answer(part.get("tool_use_id"), None, part.get("content"), is_error=bool(part.get("is_error")))
    if kind == "tool-result":
        return _answer(part.get("toolCallId"), part.get("toolName"), first_of(part, "output", "result"))
    if kind == "tool_call_response":
        return _answer(part.get("id"), part.get("name"), first_of(part, "response", "result", "content"))
    bedrock = mapping(part.get("toolResult"))
    if "toolUseId" in bedrock:
        content = bedrock.get("content")
        if type(content) is list:
            content = [text(entry["json"]) if "json" in mapping(entry) else entry for entry in content]
        return _answer(bedrock["toolUseId"], None, content, is_error=bedrock.get("status") == "error")
    if kind == "toolResponse":
        result = mapping(part.get("toolResult"))
        value = result.get("value")
        content = first_of(result, "error") if value is None else mapping(value).get("content", value)
        return _answer(
            part.get("id"), None, content, is_error="error" in result or mapping(value).get("isError") is True
        )
    invocation = _invocation(part)
    return invocation[1] if invocation else None


def turns_in(message: Message) -> Iterator[Message]:
    """Splits an assistant message that contains tool results: into its answers, each followed by the results that interrupted it.

    A part may be a call with its result. Consecutive calls of this kind were made in parallel, unless a boundary separates them.
    """
    details = {key: value for key, value in message.items() if key != "content"}
    content: list[Json] = []
    results: list[Message] = []
    is_interrupted = False  # a result was a part of its own: whatever follows was written after it
    for part in message["content"]:
        call, result = call_of(part), result_of(part)
        is_bound = kind_of(part) in BOUNDS
        if results and (is_bound or (is_interrupted if call is not None else result is None)):
            if content:
                yield {**details, "content": content}
                details, content = {"role": "assistant"}, []
            yield from results
            results, is_interrupted = [], False
        if call is not None or not (result or is_bound):
            content.append(part)
        if result:
            results.append(result)
            is_interrupted = is_interrupted or call is None
    if content:
        yield {**details, "content": content}
    yield from results


def in_parts(message: Message) -> Message:
    """The message with its parts as `content` if they are under `parts`, or its calls under `toolInvocations` (Vercel AI SDK)."""
    parts, invoked = message.get("parts"), message.get("toolInvocations")
    is_more = type(parts) is list and any(kind_of(part) not in ("", "text") for part in parts)
    if type(parts) is list and parts and (is_more or not message.get("content")):
        return {key: value for key, value in message.items() if key not in ("parts", "toolInvocations")} | {
            "content": parts
        }
    if type(invoked) is list and invoked:
        texts = [{"type": "text", "text": message["content"]}] if message.get("content") else []
        content = [*({"type": "tool-invocation", "toolInvocation": invocation} for invocation in invoked), *texts]
        return {key: value for key, value in message.items() if key != "toolInvocations"} | {"content": content}
    return message


def _invocation(part: dict[str, Any]) -> tuple[dict[str, Json], Message | None] | None:
    """A call and its result, if present, from one part of the Vercel AI SDK or opencode."""
    kind = kind_of(part)
    is_old = kind == "tool-invocation"
    if is_old:
        part = mapping(part.get("toolInvocation")) or part
    if kind in ("tool", "tool-invocation") and type(part.get("state")) is dict:
        state = part["state"]
        part = {**state, "toolCallId": part.get("callID"), "toolName": part.get("tool"), "state": state.get("status")}
    elif not kind or not (is_old or ("toolCallId" in part and "state" in part)):
        return None
    name = part.get("toolName") or kind.removeprefix("tool-")
    identifier, state = part.get("toolCallId"), text(part.get("state"))
    call = {"id": identifier, "name": name, "arguments": first_of(part, "input", "args")}
    if state in FAILED:
        return call, _answer(identifier, name, first_of(part, "errorText", "error"), is_error=True)
    content = first_of(part, "output", "result")
    is_answered = state in ANSWERED or (not state and content is not None)
    return call, _answer(identifier, name, content) if is_answered else None


def _answer(identifier: Json, name: Json, content: Json, *, is_error: bool = False) -> Message:
    value = mapping(content)
    if (kind := kind_of(value)) and "value" in value:  # the AI SDK gives the type of the output
        content, is_error = value["value"], is_error or kind.startswith("error")
    message: Message = {"role": "tool", "content": content}
    message |= {"tool_call_id": identifier} if identifier else {}
    message |= {"name": name} if name else {}
    return message | ({"is_error": True} if is_error else {})
