"""The annotator behind a person: made when they first judge something."""

from apps.accounts.models import Membership
from apps.annotation.models import Annotator


def annotator_of(member: Membership) -> Annotator:
    """This person as an annotator of their workspace; the same one after they left and came back."""
    return Annotator.objects.get_or_create(
        workspace_id=member.workspace_id,
        user=member.user,
        defaults={"kind": Annotator.Kind.PERSON, "name": str(member.user)},
    )[0]
