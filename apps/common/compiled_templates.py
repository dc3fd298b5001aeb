"""Jinja templates for markup that a page repeats hundreds of times: they're compiled to Python and took a tenth of the time of Django's.

All other templates are Django's. These have no request, so they can't contain forms or elements that send requests.
"""

from __future__ import annotations

from django.conf import settings
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from apps.common import quantities
from apps.common.markup import Markup, of_template
from apps.common.templatetags.look import icon

_ENVIRONMENT = Environment(
    loader=FileSystemLoader(settings.BASE_DIR / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    cache_size=0 if settings.DEBUG else -1,  # in development, edits show at once
    auto_reload=False,
)
_ENVIRONMENT.globals["icon"] = icon
_ENVIRONMENT.filters |= {
    "count": quantities.count,
    "duration": quantities.duration,
    "figure": quantities.figure,
}


def render_macro(template: str, macro: str, *values: object) -> Markup:
    """Calls a macro of a template with these values."""
    return of_template(getattr(_ENVIRONMENT.get_template(template).module, macro)(*values))
