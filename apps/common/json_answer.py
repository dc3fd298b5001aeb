"""How the API writes its JSON. DRF encodes it by itself, and would fail where text holds lone surrogates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.renderers import JSONRenderer


class ApiRenderer(JSONRenderer):
    """UTF-8; all in ASCII where that can't hold the text, which says the same in JSON."""

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        try:
            return bytes(super().render(data, accepted_media_type, renderer_context))
        except UnicodeEncodeError:
            return bytes(_AsciiRenderer().render(data, accepted_media_type, renderer_context))


class _AsciiRenderer(JSONRenderer):
    ensure_ascii = True
