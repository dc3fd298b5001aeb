"""The demo's sign-ins. They are named for what they may do; nobody here is a person."""

from dataclasses import dataclass

from django.conf import settings
from django.db import transaction

from apps.accounts.models import Membership, Role, User, Workspace

PASSWORD = "retrace-demo"
SLUG = "demo"


@dataclass(frozen=True)
class SignIn:
    """An account of the demo workspace."""

    email: str
    name: str
    role: Role


SIGN_INS = (
    SignIn("owner@example.org", "Demo owner", Role.OWNER),
    SignIn("researcher@example.org", "Demo researcher", Role.RESEARCHER),
    SignIn("reviewer@example.org", "Demo reviewer", Role.REVIEWER),
    SignIn("annotator@example.org", "Demo annotator", Role.ANNOTATOR),
    SignIn("annotator2@example.org", "Second demo annotator", Role.ANNOTATOR),
)


class RefusedInProduction(Exception):
    """Everybody knows the demo's password."""


@transaction.atomic
def demo_workspace() -> Workspace:
    """The demo workspace with its people; made where it is missing, otherwise left as it is. Raises RefusedInProduction."""
    if settings.PRODUCTION:
        raise RefusedInProduction("The demo's passwords are public, so it is not made with RETRACE_ENV=production.")
    workspace, _ = Workspace.objects.get_or_create(slug=SLUG, defaults={"name": "Demo"})
    for sign_in in SIGN_INS:
        user = User.objects.filter(email__iexact=sign_in.email).first()
        if user is None:
            user = User.objects.create_user(email=sign_in.email, password=PASSWORD, name=sign_in.name)
        Membership.objects.get_or_create(user=user, workspace=workspace, defaults={"role": sign_in.role})
    return workspace
