"""The mark of elements that our templates wrote: `data-nonce="{% nonce %}"`. Data that became markup cannot carry it.

htmx and the modules of static/js act only for elements with the mark. It comes from the secret behind the CSRF token: the same in every
answer to one browser until somebody signs in there, and unknown to everybody else. See docs/decisions/elements-that-act-are-marked.md.
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
    get_token(request)  # makes a secret where there is none, and has its cookie set
    digest = salted_hmac("apps.common.nonce", request.META["CSRF_COOKIE"], algorithm="sha256").hexdigest()
    return f"n{digest[:32]}"  # begins with a letter, so that it needs no quotes in a selector


@register.simple_tag(takes_context=True)
def nonce(context: template.Context) -> str:
    """The nonce, or nothing where no request is answered: a partial for a websocket goes to many browsers."""
    request: Any = getattr(context, "request", None) or context.get("request")
    return nonce_of(request) if request else ""


@register.simple_tag(takes_context=True)
def htmx_ignores(context: template.Context) -> str:
    """The selector of elements that htmx leaves alone, with all inside them: those with an attribute of htmx and without the nonce."""
    attributes = ",".join(f"[{prefix}hx-{name}]" for name in HTMX for prefix in ("", "data-"))
    return f"[hx-disable],:is({attributes}):not([data-nonce={nonce(context) or 'none'}])"
