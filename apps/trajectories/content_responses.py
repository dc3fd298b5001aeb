"""Responses with long content: the rest of a text, a branch of a tree, a verified image, or a download of all of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render

from apps.trajectories import queries
from apps.trajectories.models import Step, Trajectory
from apps.trajectories.rendering.forms import FORMS, ContentLocation, chunk
from apps.trajectories.rendering.images import picture_of
from apps.trajectories.rendering.messages import Messages
from apps.trajectories.rendering.step_parts import part_of

SEALED = "default-src 'none'; sandbox; frame-ancestors 'none'"


def answer_part(
    request: HttpRequest, trajectory: Trajectory, index: int, *, url: str, back: str, name: str
) -> HttpResponse:
    """More of a stored step; the caller must have checked access to the trajectory. See `answer_for`."""
    step = get_object_or_404(Step, trajectory=trajectory, index=index)
    following = queries.following(trajectory, index) if request.GET.get("at", "").startswith("after") else []
    return answer_for(request, step, following, url=url, back=back, name=name)


def answer_for(
    request: HttpRequest, step: Step, following: Messages, *, url: str, back: str, name: str
) -> HttpResponse:
    """The response to a link from `ContentLocation.link`. `url` is this view's own address, `back` the page with the link.

    `name` begins the name of a download.

    `at`: the part; `as`: its form; `from`: the offset; `path`: the branch of a tree; `raw`: everything, as a download.
    """
    return answer_content(
        request,
        lambda at: part_of(step, following, at),
        url=url,
        back=back,
        name=f"{name}-{step.index + 1}",
        whole=f"step {step.index + 1}",
    )


def answer_content(
    request: HttpRequest, content_of: Callable[[str], Any], *, url: str, back: str, name: str, whole: str
) -> HttpResponse:
    """The same for parts of anything, in words `whole`. `content_of` raises LookupError."""
    at, form, path = request.GET.get("at", ""), request.GET.get("as", "text"), request.GET.get("path", "")
    start = request.GET.get("from", "0")
    try:
        content = content_of(at)
        if request.GET.get("raw"):
            return _download(content, name=f"{name}-{at.replace('.', '-')}.txt")
        if form == "image":
            return _picture(content)
        if form not in FORMS or not start.isdecimal() or len(start) > 12:
            raise LookupError(form)
        html, more, _ = chunk(content, ContentLocation(url, at), form, start=int(start), path=path)
    except (LookupError, ValueError):
        raise Http404(f"There is no such part in {whole}.") from None
    template = "trajectories/_part.html" if request.headers.get("HX-Request") else "trajectories/part.html"
    return render(request, template, {"html": html, "more": more, "back": back, "whole": whole})


def _picture(part: Any) -> HttpResponse:
    picture = picture_of(part)
    if isinstance(picture, str):
        raise LookupError(picture)
    return _sealed(HttpResponse(picture.body, content_type=picture.media_type))


def _download(content: Any, *, name: str) -> HttpResponse:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2)
    response = HttpResponse(text.encode("utf-8", "backslashreplace"), content_type="application/octet-stream")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return _sealed(response)


def _sealed(response: HttpResponse) -> HttpResponse:
    """Whatever the content, a browser that opens it directly runs and loads nothing."""
    response["Content-Security-Policy"] = SEALED
    response["X-Content-Type-Options"] = "nosniff"
    return response
