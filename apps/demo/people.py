"""The demo workspace and its people."""

from django.conf import settings
from django.db import transaction

from apps.accounts.models import Membership, Role, User, Workspace
from apps.demo.sign_ins import PASSWORD, SIGN_INS

SLUG = "demo"


class RefusedInProduction(Exception):
    """Everybody knows the demo's password."""


@transaction.atomic
def demo_workspace() -> Workspace:
    """The demo workspace with its people; made where it is missing, otherwise left as it is. Raises RefusedInProduction."""
    if settings.PRODUCTION:
        raise RefusedInProduction("The demo's passwords are public, so it is not made with RETRACE_ENV=production.")
    workspace, _ = Workspace.objects.get_or_create(slug=SLUG, defaults={"name": "Demo"})
    for sign_in in SIGN_INS:
        user = User.objects.filter(email__lower=sign_in.email.lower()).first()
        if user is None:
            user = User.objects.create_user(email=sign_in.email, password=PASSWORD, name=sign_in.name)
        role = Role[sign_in.role.upper()]
        Membership.objects.get_or_create(user=user, workspace=workspace, defaults={"role": role})
    return workspace
