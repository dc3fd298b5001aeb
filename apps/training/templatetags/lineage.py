"""Template tags that show lineage on the pages of other apps."""

from __future__ import annotations

from django import template

from apps.datasets.models import Version
from apps.policies.models import Policy
from apps.training import lineage
from apps.training.models import Run

register = template.Library()
register.simple_tag(lineage.use_of)


@register.simple_tag
def ancestors_of(subject: Policy | Run) -> lineage.Lines[lineage.Origin]:
    """The ancestors of a policy or a run."""
    return lineage.origins_of(subject) if isinstance(subject, Policy) else lineage.origins_of_run(subject)


@register.simple_tag
def learners_of(subject: Policy | Version) -> lineage.Lines[lineage.Learner]:
    """What was trained from a policy, or on a version's rows."""
    if isinstance(subject, Policy):
        return lineage.learners_from(subject)
    return lineage.learners_from_versions([subject.pk])
