"""A policy's replies in the form of Anthropic's Messages and OpenAI's Responses, complete and streamed. Token counts are those of the chat completion."""

import json
from collections.abc import Iterator
from typing import Any

Spelled = dict[str, Any]
THOUGHT = "It may be on the shelf."


def message(completion: Spelled) -> Spelled:
    """The reply as an Anthropic message, preceded by reasoning."""
    reply = completion["choices"][0]["message"]
    content: list[Spelled] = [{"type": "thinking", "thinking": THOUGHT, "signature": "c2ln"}]
    if reply.get("content"):
        content.append({"type": "text", "text": reply["content"]})
    for call in reply.get("tool_calls") or []:
        arguments = json.loads(call["function"]["arguments"])
        content.append({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": arguments})
    return {
        "id": "chatcmpl-1",
        "type": "message",
        "role": "assistant",
        "model": completion["model"],
        "content": content,
        "stop_reason": "tool_use" if reply.get("tool_calls") else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": completion["usage"]["prompt_tokens"] - 4,
            "cache_read_input_tokens": 4,
            "output_tokens": completion["usage"]["completion_tokens"],
        },
        "kv_transfer_params": None,
    }


def message_events(whole: Spelled) -> Iterator[Spelled]:
    usage = whole["usage"]
    start = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 0}}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(whole["content"]):
        kind, name = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}.get(
            block["type"], ("input_json_delta", "input")
        )
        empty = {**block, name: {} if name == "input" else ""}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        text = json.dumps(block["input"]) if name == "input" else block[name]
        for piece in (text[:3], text[3:]):
            fields = {"partial_json" if name == "input" else name: piece}
            yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": usage["output_tokens"]}}
    yield {"type": "message_stop"}


def response(completion: Spelled) -> Spelled:
    """The reply as an OpenAI response, preceded by reasoning."""
    reply = completion["choices"][0]["message"]
    output: list[Spelled] = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": THOUGHT}]}
    ]
    if reply.get("content"):
        text = {"type": "output_text", "text": reply["content"], "annotations": [], "logprobs": []}
        output.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]})
    for call in reply.get("tool_calls") or []:
        item = {"type": "function_call", "id": "fc_1", "call_id": call["id"], "status": "completed"}
        output.append({**item, **call["function"]})
    read, written = (completion["usage"][name] for name in ("prompt_tokens", "completion_tokens"))
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": completion["model"],
        "status": "completed",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "service_tier": "auto",
        "usage": {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": read + written,
        },
    }


def response_events(whole: Spelled) -> Iterator[Spelled]:
    begun = {**whole, "output": [], "status": "in_progress", "usage": None}
    yield {"type": "response.created", "response": begun, "sequence_number": 0}
    for index, item in enumerate(whole["output"]):
        empty = {**item, **{name: type(item[name])() for name in ("content", "arguments") if name in item}}
        place = {"item_id": item["id"], "output_index": index}
        yield {"type": "response.output_item.added", "output_index": index, "item": empty}
        if item["type"] == "message":
            part, place = item["content"][0], {**place, "content_index": 0}
            yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
            for piece in (part["text"][:3], part["text"][3:]):
                yield {
                    "type": "response.output_text.delta",
                    **place,
                    "delta": piece,
                    "logprobs": [],
                    "obfuscation": "x",
                }
            yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
            yield {"type": "response.content_part.done", **place, "part": part}
        if item["type"] == "function_call":
            yield {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]}
            yield {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": whole, "sequence_number": 99}


def chat_of(path: str, body: Spelled) -> list[Spelled]:
    """The chat in a request of one of these protocols, for counting it."""
    items = body["messages"] if path == "messages" else body["input"]
    items = [{"role": "user", "content": items}] if isinstance(items, str) else items
    return [{"role": item.get("role", "tool"), "content": json.dumps(item)} for item in items]
