"""Writing corrections at the desk: the form, and its validation."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from apps.annotation.kinds import kind_of
from apps.annotation.kinds.corrections import (
    ArgumentField,
    Tool,
    calls_of,
    check_action,
    fields_of,
    read_call,
    tools_of,
)
from apps.annotation.models import Assignment
from apps.annotation.views.desk import acting, desk_of, own_with_trajectories
from apps.common.fragments import fragment_of
from apps.common.http import HtmxRequest
from apps.trajectories.models import Step

TEXT = 100_000
ARGUMENT = "arg."


@fragment_of(desk_of)
@require_safe
def form(request: HtmxRequest, assignment_id: UUID, index: int) -> HttpResponse:
    """The form to correct the policy's action at a step; `tool` selects another tool, or "" for plain text."""
    assignment = _correctable(request, assignment_id)
    message = _message(assignment, index)
    tools, calls = tools_of(assignment.item.a.tools, message), calls_of(message)
    name = request.GET.get("tool", calls[0][0] if calls else "")
    chosen = next((tool for tool in tools if tool.name == name), None)
    arguments = calls[0][1] if calls and calls[0][0] == name else None
    context = {
        "assignment": assignment,
        "index": index,
        "tools": tools,
        "chosen": chosen,
        "fields": _fields(chosen, arguments),
        "content": message.get("content") if isinstance(message.get("content"), str) else "",
        "thought": message.get("reasoning_content") or "",
    }
    return render(request, "annotation/_better.html", context)


@acting
def check(request: HtmxRequest, assignment_id: UUID, index: int) -> HttpResponse:
    """The message that the form describes, if the policy could have sent it; otherwise 409 with the error."""
    assignment = _correctable(request, assignment_id)
    before = _message(assignment, index)
    tools = tools_of(assignment.item.a.tools, before)
    message: dict[str, Any] = {"role": "assistant", "content": request.POST.get("content", "")[:TEXT]}
    if thought := request.POST.get("thought", "")[:TEXT]:
        message["reasoning_content"] = thought
    if tool := next((tool for tool in tools if tool.name == request.POST.get("tool")), None):
        function = {"name": tool.name, "arguments": read_call(tool, _submitted_arguments(request))}
        message["tool_calls"] = [{"id": _call_id(before, index), "type": "function", "function": function}]
    check_action(message, tools)
    return JsonResponse({"message": message})


def _submitted_arguments(request: HtmxRequest) -> dict[str, str]:
    """The submitted arguments. Their fields have a prefix, so that an argument called `content` doesn't collide with the message's content."""
    fields = {name: str(value) for name, value in request.POST.items()}
    return {name.removeprefix(ARGUMENT): value for name, value in fields.items() if name.startswith(ARGUMENT)}


def _correctable(request: HtmxRequest, assignment_id: UUID) -> Assignment:
    assignment = own_with_trajectories(request, assignment_id)
    kind = kind_of(assignment.queue)
    if not kind.takes_corrections(kind.asked(assignment.queue)):
        raise Http404
    return assignment


def _message(assignment: Assignment, index: int) -> dict[str, Any]:
    step = get_object_or_404(Step.objects.only("message"), trajectory=assignment.item.a_id, index=index)
    return step.message if isinstance(step.message, dict) else {"content": step.message}


def _fields(chosen: Tool | None, arguments: Any) -> list[ArgumentField]:
    return [] if chosen is None else fields_of(chosen, arguments)


def _call_id(message: dict[str, Any], index: int) -> str:
    """The id of the call that it replaces, so that the recorded result still belongs to it."""
    calls = message.get("tool_calls")
    first = calls[0].get("id") if isinstance(calls, list) and calls and isinstance(calls[0], dict) else None
    return first if isinstance(first, str) and first else f"call_{index + 1}"
