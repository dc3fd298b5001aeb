"""Only our own pages may open websockets. Browsers send cookies to every port of a host, so the port is checked, too."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings

USUAL_PORTS = {"http": 80, "https": 443}


class SameOrigin:
    """ASGI: denies a websocket whose `Origin` is neither its own host nor in CSRF_TRUSTED_ORIGINS, like the CSRF check for forms."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        headers = {name: value.decode("latin1") for name, value in scope["headers"]}
        origin = headers.get(b"origin", "")
        is_same_origin = origin in settings.CSRF_TRUSTED_ORIGINS or _is_at(origin, headers.get(b"host", ""))
        await (self.inner if is_same_origin else WebsocketDenier())(scope, receive, send)


def _is_at(origin: str, host: str) -> bool:
    """Whether an origin has this host and port. The scheme is ignored, since a proxy may have changed it."""
    try:
        origin_url, host_url = urlsplit(origin), urlsplit(f"//{host}")
        default_port = USUAL_PORTS.get(origin_url.scheme)
        return bool(origin_url.hostname) and (origin_url.hostname, origin_url.port or default_port) == (
            host_url.hostname,
            host_url.port or default_port,
        )
    except ValueError:  # an invalid address
        return False
