"""Display names of import formats."""

from django import template

from apps.ingest.formats import titled

register = template.Library()


@register.filter
def format_title(name: str) -> str:
    """The display name of a format; other sources, such as a rollout, are returned unchanged."""
    return titled(name)
