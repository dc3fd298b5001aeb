"""Static files: served before Django; in production content-hashed, compressed, and cached forever."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpRequest, HttpResponse
from django.middleware.security import SecurityMiddleware
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage

from apps.common.uploads import Receive, Scope, Send


class ModuleStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise has no types
    """Also rewrites imports between our own ES modules.

    Otherwise a module imported under two names (with and without the hash) would run twice, with separate state. Third-party
    scripts are left alone: they're classic scripts, whose comments mention imports of files that aren't shipped.
    """

    support_js_module_import_aggregation = True
    _js_module_import_aggregation_patterns = (
        "js/*.js",
        CompressedManifestStaticFilesStorage._js_module_import_aggregation_patterns[1],
    )


class StaticFiles:
    """ASGI: serves static files in the event loop, and passes all other requests to `inner`.

    A first page view requests fifty small files. Reading one takes far less time than the thread switches that
    Django makes for every request.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.files = WhiteNoiseMiddleware(_no_file)
        self.answer: Any = convert_exception_to_response(SecurityMiddleware(self.files))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if not path.startswith(self.files.static_prefix):
            await self.inner(scope, receive, send)
            return
        response = self.answer(ASGIRequest(dict(scope), BytesIO()))
        content = response.getvalue()
        response.close()
        headers = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def _no_file(request: HttpRequest) -> HttpResponse:
    return HttpResponse("There is no such file.", content_type="text/plain", status=404)
