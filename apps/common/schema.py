"""Serves the API's OpenAPI description, generated once per process and format: it takes seconds, and is the same for everybody, strangers included."""

from __future__ import annotations

from threading import Lock

from django.http import HttpResponse
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request

_lock = Lock()
_generated: dict[str, str | bytes] = {}
"""By format: `yaml` or `json`."""


class SchemaView(SpectacularAPIView):
    """GET /api/schema/"""

    def get(self, request: Request, *args: object, **kwargs: object) -> HttpResponse:
        renderer = request.accepted_renderer
        with _lock:  # otherwise each of many requests would generate it
            if renderer.format not in _generated:
                generator = self.generator_class(urlconf=self.urlconf, api_version=self.api_version)
                schema = generator.get_schema(public=True)  # type: ignore[no-untyped-call]  # drf-spectacular has no types here
                _generated[renderer.format] = renderer.render(schema, renderer_context={})
        name = self._get_filename(request, self.api_version)  # type: ignore[no-untyped-call]  # as above
        return HttpResponse(
            _generated[renderer.format],
            content_type=renderer.media_type,
            headers={"Content-Disposition": f'inline; filename="{name}"'},
        )
