"""The navigation of base.html."""

from typing import Any

from django import template
from django.template import RequestContext

from apps.accounts.navigation import Link, links_for

register = template.Library()


@register.simple_tag(takes_context=True)
def navigation_links(context: RequestContext) -> list[Link]:
    """The links that this visitor sees."""
    request: Any = context.get("request")
    return links_for(context.get("member") or None, request.resolver_match if request else None)
