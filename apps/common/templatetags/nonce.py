"""Marks elements written by our templates: `data-nonce="{% nonce %}"`. Injected markup can't have it.

htmx and the modules in static/js only act on marked elements. The nonce is derived from the CSRF secret: the same in every
response to a browser until somebody signs in there, and unknown to everybody else. See docs/decisions/elements-that-act-are-marked.md.
"""

from typing import Any

from django import template
from django.http import HttpRequest
from django.middleware.csrf import get_token
from django.utils.crypto import salted_hmac

register = template.Library()

HTMX = (
    *("get", "post", "put", "patch", "delete", "boost", "confirm", "disabled-elt", "disinherit", "encoding", "ext"),
    *("headers", "history", "history-elt", "include", "indicator", "inherit", "on", "params", "preserve", "prompt"),
    *("push-url", "replace-url", "request", "select", "select-oob", "swap", "swap-oob", "sync", "target", "trigger"),
    *("validate", "vals", "vars"),
)
"""Every attribute that htmx 2 reads, without `hx-`; `hx-on:…` evaluates code, which its configuration forbids."""


def nonce_of(request: HttpRequest) -> str:
    """The nonce of this browser."""
    get_token(request)  # creates the secret and its cookie if needed
    digest = salted_hmac("apps.common.nonce", request.META["CSRF_COOKIE"], algorithm="sha256").hexdigest()
    return f"n{digest[:32]}"  # starts with a letter, so that it needs no quotes in a selector


@register.simple_tag(takes_context=True)
def nonce(context: template.Context) -> str:
    """The nonce, or "" outside a request: a partial for a websocket goes to many browsers."""
    request: Any = getattr(context, "request", None) or context.get("request")
    return nonce_of(request) if request else ""


@register.simple_tag(takes_context=True)
def htmx_ignores(context: template.Context) -> str:
    """The selector of elements that htmx ignores, with their descendants: those with an htmx attribute but without the nonce."""
    attributes = ",".join(f"[{prefix}hx-{name}]" for name in HTMX for prefix in ("", "data-"))
    return f"[hx-disable],:is({attributes}):not([data-nonce={nonce(context) or 'none'}])"
