"""What every API view has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.views import APIView

if TYPE_CHECKING:
    from apps.accounts.models import Membership


class MemberView(APIView):
    """A view with `self.member`, the membership behind the request; set by `apps.accounts.authentication.IsMember`."""

    member: Membership
