"""What pages call the formats that runs came in."""

from django import template

from apps.ingest.formats import titled

register = template.Library()


@register.filter
def format_title(name: str) -> str:
    """What people call a format; the name itself of what is none, such as a rollout."""
    return titled(name)
