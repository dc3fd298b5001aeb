"""The desk's layout menu."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

from apps.annotation.desk import layouts
from apps.annotation.forms.layouts import LayoutForm
from apps.annotation.kinds import kind_of
from apps.annotation.models import DeskLayout, Queue
from apps.annotation.refusals import Refusal
from apps.common.http import HtmxRequest


def _arrange(request: HtmxRequest, queue: Queue) -> None:
    form = LayoutForm(request.POST, queue=queue)
    if not form.is_valid():
        raise layouts.LayoutRefused("There is no such layout. Reload the page and choose again.")
    layouts.arrange(queue=queue, user=request.user, settings=form.settings())


def _choose(request: HtmxRequest, queue: Queue) -> None:
    layout_id = request.POST.get("layout", "")
    own_layouts = {str(layout.pk): layout for layout in DeskLayout.objects.filter(user=request.user)}
    if layout_id and layout_id not in own_layouts:
        raise layouts.LayoutRefused("This layout is gone. Choose another.")
    layouts.choose(queue=queue, user=request.user, layout=own_layouts.get(layout_id))


def _save(request: HtmxRequest, queue: Queue) -> None:
    layouts.save_new(queue=queue, user=request.user, name=request.POST.get("name", ""))


def _rename(request: HtmxRequest, queue: Queue) -> None:
    layouts.rename(queue=queue, user=request.user, name=request.POST.get("name", ""))


def _use_for_kind(request: HtmxRequest, queue: Queue) -> None:
    layouts.use_for_kind(queue=queue, user=request.user, wanted="wanted" in request.POST)


ACTS: dict[str, Callable[[HtmxRequest, Queue], object]] = {
    "arrange": _arrange,
    "choose": _choose,
    "save": _save,
    "save_changes": lambda request, queue: layouts.save_changes(queue=queue, user=request.user),
    "rename": _rename,
    "delete": lambda request, queue: layouts.delete(queue=queue, user=request.user),
    "use_for_kind": _use_for_kind,
    "undo": lambda request, queue: layouts.undo(queue=queue, user=request.user),
}


@require_POST
def act(request: HtmxRequest, queue_id: UUID, action: str) -> HttpResponse:
    """Change the layout of one's own desk in this queue."""
    queue = get_object_or_404(Queue.objects.visible_to(request.member).for_desk(), pk=queue_id)
    problem = ""
    try:
        ACTS[action](request, queue)
    except Refusal as refusal:
        problem = str(refusal)
    if not request.htmx:
        if problem:
            messages.error(request, problem)
        return redirect("annotation:desk", queue_id=queue.pk)
    arrangement = layouts.arrangement_of(queue, request.user)
    context = {"queue": queue, "kind": kind_of(queue), "arrangement": arrangement, "layout_problem": problem}
    return render(request, "annotation/_layout_answer.html", context, status=422 if problem else 200)
