"""Template tags that show versions on the pages of other apps."""

from django import template

from apps.accounts.models import Membership
from apps.annotation.models import Queue
from apps.datasets.queries import Frozen, frozen_of

register = template.Library()


@register.simple_tag
def frozen_judgments(queue: Queue, member: Membership) -> Frozen | None:
    """How far a queue's judgments have been frozen; None if no version has them or this member may see none."""
    return frozen_of(queue, member)
