"""The authentication backend. Sessions store this class's import path, so moving it would sign everybody out."""

from django.contrib.auth.backends import ModelBackend

from apps.accounts.models import Membership, User
from apps.common.compiled_queries import CompiledQuery

_MEMBERSHIPS = CompiledQuery(Membership.objects.of, user_id=int)


class PeopleBackend(ModelBackend):
    """Loads the user of a session with their memberships in one query, since pages need both."""

    def get_user(self, user_id: int) -> User | None:
        memberships = _MEMBERSHIPS.all(user_id=user_id)
        if not memberships:
            return super().get_user(user_id)
        user = memberships[0].user
        user.own_memberships = memberships
        for membership in memberships:
            membership.user = user
        return user if self.user_can_authenticate(user) else None
