"""Steps on pages that are templates of Django's: what `trajectories/steps.jinja` writes."""

from django import template

from apps.common.compiled_templates import written
from apps.common.markup import Markup
from apps.trajectories.rendering.steps import StepHead, StepView

register = template.Library()


@register.simple_tag
def step_head(head: StepHead, url: str) -> Markup:
    """A step in a line; its number leads to `url`."""
    return written("trajectories/steps.jinja", "head", head, url)


@register.simple_tag
def step_body(step: StepView) -> Markup:
    """All of a step but its line."""
    return written("trajectories/steps.jinja", "body", step)
