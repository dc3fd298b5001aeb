"""Pieces of pages, which the pages' scripts fetch: whoever opens the address of one by hand is led to its page.

Browsers ask for a page with `Accept: text/html`; htmx says who it is, and a script's `fetch` takes anything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.cache import patch_vary_headers

from apps.common.http import HtmxRequest

P = ParamSpec("P")
View = Callable[Concatenate[HtmxRequest, P], HttpResponseBase]


def fragment_of(page: Callable[..., str]) -> Callable[[View[P]], View[P]]:
    """The view answers a piece of a page; `page` gives that page's address from the names in the fragment's own.

    The view is asked first, so what is not there for a visitor stays a 404.
    """

    def guard(view: View[P]) -> View[P]:
        def guarded(request: HtmxRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            response = view(request, *args, **kwargs)
            patch_vary_headers(response, ["Accept"])  # a fragment that the browser keeps is no answer to a person
            if response.status_code == 200 and _is_opened(request):
                names: dict[str, Any] = request.resolver_match.kwargs if request.resolver_match else {}
                return redirect(page(**names))
            return response

        update_wrapper(guarded, view)
        return guarded

    return guard


def _is_opened(request: HttpRequest) -> bool:
    return "text/html" in request.headers.get("Accept", "") and "HX-Request" not in request.headers
