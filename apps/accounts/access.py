"""Restricts pages to roles. Access to objects is decided by their querysets (`visible_to`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Concatenate, ParamSpec, TypeVar

from django.http import Http404
from django.http.response import HttpResponseBase

from apps.accounts.models import Role
from apps.common.http import HtmxRequest

P = ParamSpec("P")
R = TypeVar("R", bound=HttpResponseBase)


def at_least(
    role: Role,
) -> Callable[[Callable[Concatenate[HtmxRequest, P], R]], Callable[Concatenate[HtmxRequest, P], R]]:
    """Members below `role` get a 404, as for a page that doesn't exist."""

    def guard(view: Callable[Concatenate[HtmxRequest, P], R]) -> Callable[Concatenate[HtmxRequest, P], R]:
        def guarded(request: HtmxRequest, /, *args: P.args, **kwargs: P.kwargs) -> R:
            if request.member.role < role:
                raise Http404
            return view(request, *args, **kwargs)

        update_wrapper(guarded, view)
        return guarded

    return guard
