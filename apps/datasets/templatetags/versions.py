"""What pages of other apps say about versions."""

from django import template

from apps.accounts.models import Membership
from apps.annotation.models import Queue
from apps.datasets.queries import Frozen, frozen_of

register = template.Library()


@register.simple_tag
def frozen_judgements(queue: Queue, member: Membership) -> Frozen | None:
    """How far a queue's judgments are frozen; None where no version has them or this member sees none."""
    return frozen_of(queue, member)
