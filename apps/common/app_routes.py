"""An app's routes, with which only addresses that begin like one of them are compared: most apps needn't be asked."""

from collections.abc import Iterable
from typing import Any

from django.urls import URLPattern, URLResolver, include
from django.urls.resolvers import RoutePattern


class _BeginsAlike(RoutePattern):
    """An empty prefix, which matches what has the first segment of one of `routes`. Each of them spells it out."""

    def __init__(self, routes: Iterable[URLPattern | URLResolver]) -> None:
        super().__init__("")
        self._segments = {_first_segment(str(route.pattern)) for route in routes}

    def match(self, path: str) -> Any:
        return super().match(path) if _first_segment(path) in self._segments else None


def _first_segment(path: str) -> str:
    return path.partition("/")[0]


def app_routes(routes: str | list[URLPattern]) -> URLResolver:
    """Like `path("", include(routes))`."""
    urlconf, app_name, namespace = include(routes)
    return URLResolver(_BeginsAlike(getattr(urlconf, "urlpatterns", urlconf)), urlconf, None, app_name, namespace)
