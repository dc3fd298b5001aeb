"""The demo workspace and its people."""

from django.conf import settings
from django.db import transaction

from apps.accounts.models import Membership, Role, User, Workspace
from apps.demo.sign_ins import PASSWORD, SIGN_INS

SLUG = "demo"


class RefusedInProduction(Exception):
    """The demo can't be created in production, since its password is public."""


@transaction.atomic
def demo_workspace() -> Workspace:
    """The demo workspace with its people, created if missing, otherwise left unchanged. Raises RefusedInProduction."""
    if settings.PRODUCTION:
        raise RefusedInProduction(
            "The demo's password is public, so the demo can't be created with RETRACE_ENV=production."
        )
    workspace, _ = Workspace.objects.get_or_create(slug=SLUG, defaults={"name": "Demo"})
    for sign_in in SIGN_INS:
        user = User.objects.filter(email__lower=sign_in.email.lower()).first()
        if user is None:
            user = User.objects.create_user(email=sign_in.email, password=PASSWORD, name=sign_in.name)
        role = Role[sign_in.role.upper()]
        Membership.objects.get_or_create(user=user, workspace=workspace, defaults={"role": role})
    return workspace
