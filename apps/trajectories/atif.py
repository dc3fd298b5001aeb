"""Exports a stored trajectory in ATIF, the Agent Trajectory Interchange Format (Harbor), version 1.6.

ATIF puts a tool call's result beside the call, while Retrace puts it before the next turn. ATIF has no reward and no outcome: they
go into `extra`. Assistant messages that the policy was only shown become steps marked as copied.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from typing import Any

from apps.trajectories.export import steps_of
from apps.trajectories.models import Trajectory
from contract import jsontext
from contract.messages import Message, text_of
from contract.trajectory import Step
from contract.values import Json, mapping

VERSION = "ATIF-v1.6"
SOURCES = {"system": "system", "developer": "system", "user": "user", "assistant": "agent", "tool": "system"}
MEDIA_TYPE = re.compile(r"data:(image/(?:jpeg|png|gif|webp))[;,]")
IMAGES = {"jpg": "image/jpeg", "jpeg": "image/jpeg", "png": "image/png", "gif": "image/gif", "webp": "image/webp"}
OF_METRICS = {"token_ids": "completion_token_ids", "logprobs": "logprobs"}
"""Keys in a step's info, and their names in ATIF."""

AtifStep = dict[str, Any]


def atif_form(trajectory: Trajectory) -> Iterator[bytes]:
    """The JSON object in pieces, one step at a time."""
    policy = trajectory.policy.name if trajectory.policy else ""
    head: dict[str, Json] = {
        "schema_version": VERSION,
        "session_id": trajectory.external_id or str(trajectory.pk),
        "agent": {
            "name": policy or "unknown",
            "version": "unknown",
            **({"model_name": policy} if policy else {}),
            **({"tool_definitions": trajectory.tools} if trajectory.tools else {}),
        },
        "extra": _extra(trajectory),
    }
    yield jsontext.dumps(head)[:-1] + b',"steps":['
    count = 0
    for count, step in enumerate(_steps(trajectory), start=1):
        yield (b"," if count > 1 else b"") + jsontext.dumps({"step_id": count, **step})
    totals: dict[str, Json] = {"total_steps": count}
    if trajectory.token_count is not None:
        totals["total_completion_tokens"] = trajectory.token_count
    yield b'],"final_metrics":' + jsontext.dumps(totals) + b"}"


def _extra(trajectory: Trajectory) -> dict[str, Json]:
    task = trajectory.task
    fields: dict[str, Json] = {
        "id": str(trajectory.pk),
        "task": {"key": task.key, "environment": task.environment, "instruction": task.instruction},
        "reward": trajectory.reward,
        "success": trajectory.success,
        "termination": trajectory.termination,
        "tags": trajectory.tags,
    }
    return {"retrace": {name: value for name, value in fields.items() if value not in (None, "", [])}}


def _steps(trajectory: Trajectory) -> Iterator[AtifStep]:
    """The steps, without numbers. There is at least one: for a trajectory without turns, its prompt."""
    pending: AtifStep | None = None
    for step in steps_of(trajectory):
        for context_step in list(_context_steps(pending, step.context)):  # all of them, before the held step is yielded
            pending = yield from _next(pending, context_step)
        pending = yield from _next(pending, _turn(step))
    for context_step in list(_context_steps(pending, trajectory.closing)):
        pending = yield from _next(pending, context_step)
    yield pending or {"source": "user", "message": trajectory.task.instruction}


def _next(pending: AtifStep | None, step: AtifStep) -> Generator[AtifStep, None, AtifStep]:
    """Yield the held step, which now has all its results, and hold the new one."""
    if pending is not None:
        yield pending
    return step


def _context_steps(pending: AtifStep | None, messages: Iterable[Message]) -> Iterator[AtifStep]:
    """Messages as steps; results of the held step's calls are added to it instead."""
    agent = pending
    for message in messages:
        called = {call["tool_call_id"] for call in (agent or {}).get("tool_calls", ())}
        if message.get("role") == "tool" and agent is not None and message.get("tool_call_id") in called:
            result = {"source_call_id": message["tool_call_id"], "content": _content(message.get("content"))}
            agent.setdefault("observation", {"results": []})["results"].append(result)
        elif message.get("role") == "tool":  # of a call that isn't here
            results = [{"content": _content(message.get("content"))}]
            yield {"source": "system", "message": "", "observation": {"results": results}}
        elif message.get("role") == "assistant":
            agent = {**_agent_step(message), "is_copied_context": True}
            yield agent
        else:
            source = SOURCES.get(str(message.get("role")), "user")
            yield {"source": source, "message": _content(message.get("content"))}


def _turn(step: Step) -> AtifStep:
    """The policy's turn as a step."""
    metrics: dict[str, Json] = {
        "prompt_tokens": step.prompt_tokens,
        "completion_tokens": step.completion_tokens,
        **{name: step.info.get(key) for key, name in OF_METRICS.items()},
        "extra": None if step.reward is None else {"reward": step.reward},
    }
    metrics = {name: value for name, value in metrics.items() if value not in (None, [])}
    extra = {"error": step.error, "seconds": step.seconds, "done": step.done or None}
    extra = {name: value for name, value in extra.items() if value is not None}
    return {
        **_agent_step(step.message),
        **({"metrics": metrics} if metrics else {}),
        **({"extra": extra} if extra else {}),
    }


def _agent_step(message: Message) -> AtifStep:
    step: AtifStep = {"source": "agent", "message": _content(message.get("content"))}
    if reasoning := message.get("reasoning_content"):
        step["reasoning_content"] = reasoning if isinstance(reasoning, str) else text_of(reasoning)
    if calls := message.get("tool_calls"):
        step["tool_calls"] = [_call(mapping(call), index) for index, call in enumerate(calls)]
    return step


def _call(call: dict[str, Any], index: int) -> dict[str, Json]:
    """Arguments must be an object; anything else is put under `input`."""
    function = mapping(call.get("function"))
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        with suppress(jsontext.UnreadableJSON):
            arguments = jsontext.parse(arguments) if arguments.strip() else {}
    if not isinstance(arguments, dict):
        arguments = {} if arguments is None else {"input": arguments}
    name = str(function.get("name") or "")
    return {"tool_call_id": str(call.get("id") or f"call_{index}"), "function_name": name, "arguments": arguments}


def _content(content: Json) -> Json:
    """Text, or a list of parts if there are images that ATIF can represent."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else text_of(content)
    parts = [_image(part) or {"type": "text", "text": text_of([part])} for part in content]
    return parts if any(part["type"] == "image" for part in parts) else text_of(content)


def _image(part: Json) -> dict[str, Any] | None:
    image_url = mapping(part).get("image_url")
    url = image_url if isinstance(image_url, str) else mapping(image_url).get("url")
    if not isinstance(url, str):
        return None
    inline = MEDIA_TYPE.match(url)
    media_type = inline[1] if inline else IMAGES.get(url.partition("?")[0].rpartition(".")[2].lower())
    return {"type": "image", "source": {"media_type": media_type, "path": url}} if media_type else None
