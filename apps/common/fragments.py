"""Page fragments fetched by scripts: opening a fragment's address directly redirects to its page.

Browsers request pages with `Accept: text/html`; htmx sends its own header, and `fetch` accepts anything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.cache import patch_vary_headers

from apps.common.http import HtmxRequest

P = ParamSpec("P")
View = Callable[Concatenate[HtmxRequest, P], HttpResponseBase]


def fragment_of(page: Callable[..., str]) -> Callable[[View[P]], View[P]]:
    """Mark a view as returning a fragment; `page` returns its page's address from the fragment's URL arguments.

    The view is called first, so what a visitor can't access remains a 404.
    """

    def guard(view: View[P]) -> View[P]:
        def guarded(request: HtmxRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            response = view(request, *args, **kwargs)
            patch_vary_headers(response, ["Accept"])  # a cached fragment must not be shown as a page
            if response.status_code == 200 and _is_opened(request):
                names: dict[str, Any] = request.resolver_match.kwargs if request.resolver_match else {}
                return redirect(page(**names))
            return response

        update_wrapper(guarded, view)
        return guarded

    return guard


def _is_opened(request: HttpRequest) -> bool:
    return "text/html" in request.headers.get("Accept", "") and "HX-Request" not in request.headers


class VaryByHtmxMiddleware:
    """Keeps browsers from showing an answer to htmx as a page: a list's rows have the list's own address, to which Back leads."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        patch_vary_headers(response, ["HX-Request"])
        return response
