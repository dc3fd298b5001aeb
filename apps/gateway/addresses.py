"""Where agents find the gateway."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest


def base_url_of(request: HttpRequest) -> str:
    """Where the gateway is, for an agent's library: GATEWAY_URL, else beside these pages."""
    return settings.GATEWAY_URL or request.build_absolute_uri("/gateway/v1")
