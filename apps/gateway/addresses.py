"""The gateway's address."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest


def base_url_of(request: HttpRequest) -> str:
    """The gateway's base URL for an agent's library: GATEWAY_URL, or else on the same host as these pages."""
    return settings.GATEWAY_URL or request.build_absolute_uri("/gateway/v1")
