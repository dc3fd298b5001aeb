"""Template tags that render steps in Django templates with `trajectories/steps.jinja`."""

from django import template

from apps.common.compiled_templates import render_macro
from apps.common.markup import Markup
from apps.trajectories.rendering.heads import StepHead
from apps.trajectories.rendering.steps import StepView

register = template.Library()


@register.simple_tag
def step_head(head: StepHead, url: str, side: str = "") -> Markup:
    """A step's head line; its number links to `url`. `side` tells steps that stand side by side apart for screen readers."""
    return render_macro("trajectories/steps.jinja", "head", head, url, side)


@register.simple_tag
def step_body(step: StepView) -> Markup:
    """Everything of a step except its head line."""
    return render_macro("trajectories/steps.jinja", "body", step)
