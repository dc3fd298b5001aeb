"""The demo's sign-ins, named for what they may do; nobody here is a person. Read by settings, so nothing is imported."""

from typing import NamedTuple

PASSWORD = "retrace-demo"


class SignIn(NamedTuple):
    """An account of the demo workspace; `role` is a name of accounts.Role."""

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
    """As the sign-in page offers them."""
    return [{"role": one.name, "email": one.email, "password": PASSWORD} for one in SIGN_INS]
