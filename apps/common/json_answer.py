"""JSON output of the API. DRF's own encoding fails for text with lone surrogates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.renderers import JSONRenderer


class ApiRenderer(JSONRenderer):
    """UTF-8, or equivalent ASCII with escapes if UTF-8 can't encode the text."""

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        try:
            return bytes(super().render(data, accepted_media_type, renderer_context))
        except UnicodeEncodeError:
            return bytes(_AsciiRenderer().render(data, accepted_media_type, renderer_context))


class _AsciiRenderer(JSONRenderer):
    ensure_ascii = True
