"""Names for new policies."""

from uuid import UUID

from apps.policies.models import Policy


def free_name(*, workspace_id: UUID, wanted: str) -> str:
    """`wanted`, or `wanted (2)`, `wanted (3)`…: the first that no policy of the workspace has.

    Two runs may finish at the same moment with one name; the unique constraint then refuses the second, and the worker
    that is refused tries again.
    """
    taken = set(
        Policy.objects.filter(workspace=workspace_id, name__startswith=wanted[:190]).values_list("name", flat=True)
    )
    if wanted not in taken:
        return wanted
    number = 2
    while (name := f"{wanted[:190]} ({number})") in taken:
        number += 1
    return name
