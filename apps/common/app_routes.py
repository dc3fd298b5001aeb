"""An app's routes behind a check of the path's first segment, so that Django doesn't try the patterns of every app."""

from collections.abc import Iterable
from typing import Any

from django.urls import URLPattern, URLResolver, include
from django.urls.resolvers import RoutePattern


class _BeginsAlike(RoutePattern):
    """Matches paths that begin with the first segment of one of `routes`, and consumes nothing of them: the routes include that segment."""

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
