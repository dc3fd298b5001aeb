"""Templates of what stands on a page a hundred times: Jinja's, which become Python functions, and take a tenth of the time of Django's.

Everything else is a template of Django's. These know no request, so they can hold neither forms nor anything that sends.
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
    cache_size=0 if settings.DEBUG else -1,  # whoever works on a template sees it change
    auto_reload=False,
)
_ENVIRONMENT.globals["icon"] = icon
_ENVIRONMENT.filters |= {
    "count": quantities.count,
    "duration": quantities.duration,
    "figure": quantities.figure,
}


def written(template: str, macro: str, *values: object) -> Markup:
    """What a macro of a template writes of these values."""
    return of_template(getattr(_ENVIRONMENT.get_template(template).module, macro)(*values))
