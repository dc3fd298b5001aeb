"""Static files: answered before Django, and in production named by their content, compressed, cached forever."""

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
    """Also rewrites the imports between our own ES modules.

    Without that, a module imported by two names (with and without the hash) would run twice, with two states. Other
    packages' scripts stay as they are: they are classic scripts, whose comments mention imports of files that nobody ships.
    """

    support_js_module_import_aggregation = True
    _js_module_import_aggregation_patterns = (
        "js/*.js",
        CompressedManifestStaticFilesStorage._js_module_import_aggregation_patterns[1],
    )


class StaticFiles:
    """ASGI: answers requests for static files in the event loop; all others go on to `inner`.

    A page opened for the first time asks for fifty small files. Reading one takes far less than the trips to a thread of its own that
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
