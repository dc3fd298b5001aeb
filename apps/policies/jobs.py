"""Publications as jobs: what the engine must know of them."""

from django.urls import reverse
from django.utils.timezone import now

from apps.jobs.kinds import Event, Kind, register
from apps.policies.models import Publication

TASK = "publishing.publish"


def _end(publication: Publication, event: Event) -> None:
    if event.kind == "failed":
        Publication.objects.filter(pk=publication.pk).update(ended_at=now())


PUBLICATIONS = register(
    Kind(
        name="publications",
        noun="publication",
        label="Publication",
        model=Publication,
        task=lambda publication: TASK,
        title=str,
        url=lambda publication: reverse("policies:policy", args=[publication.policy_id]),
        on_event=_end,
        related=("policy__workspace", "endpoint", "workspace", "by"),
        listed_with=("policy",),
    )
)
