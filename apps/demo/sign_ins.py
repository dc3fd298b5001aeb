"""The demo's accounts, named after their roles; none is a real person. Imported by settings, so it imports nothing."""

from typing import NamedTuple

PASSWORD = "retrace-demo"


class SignIn(NamedTuple):
    """An account of the demo workspace; `role` is the name of an accounts.Role."""

    email: str
    name: str
    role: str


RESEARCHER = SignIn("researcher@example.org", "Demo researcher", "Researcher")
SIGN_INS = (
    RESEARCHER,
    SignIn("annotator@example.org", "Demo annotator", "Annotator"),
    SignIn("annotator2@example.org", "Second demo annotator", "Annotator"),
    SignIn("reviewer@example.org", "Demo reviewer", "Reviewer"),
    SignIn("owner@example.org", "Demo owner", "Owner"),
)


def for_settings() -> list[dict[str, str]]:
    """The accounts in the form that the sign-in page uses."""
    return [{"role": one.name, "email": one.email, "password": PASSWORD} for one in SIGN_INS]
