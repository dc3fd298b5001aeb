"""Every URL, requested by a stranger, an outsider, and each role.

A new URL is expected to be for researchers only, unless SEEN_FROM says who else may see it.
"""

from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from apps.accounts.models import Membership, Role
from apps.annotation.views.layouts import ACTS
from tests import factories
from tests.accounts.clients import as_, with_cookies_of
from tests.addresses import ASKED, PUBLIC, SENT, Address

pytestmark = pytest.mark.django_db

OWN = {
    *("annotation:item", "annotation:rows", "annotation:part", "annotation:judge", "annotation:draft"),
    *("annotation:skip", "annotation:flag", "annotation:keep", "annotation:better", "annotation:check_better"),
    *("annotation:alternatives", "annotation:run_on", "annotation:continuation", "v1:assignment_judgment"),
    *("annotation:remove_comment", "annotation:read_mention", "v1:mention_read"),
    "v1:assignment_skip",
}
"""Items on a person's desk are hidden from everybody else, whatever their role."""

SEEN_FROM = {
    Role.ANNOTATOR: {
        *("home", "accounts:sign_out", "accounts:settings"),
        *("accounts:workspaces", "accounts:switch", "accounts:leave"),
        *("accounts:profile", "accounts:change_name", "accounts:change_password", "accounts:preferences"),
        *("annotation:queues", "annotation:queue", "annotation:desk", "annotation:next", "annotation:undo"),
        *("annotation:leave", "annotation:mine", "v1:queues", "v1:queue", "v1:queue_next", "v1:mentions"),
        "v1:queue_undo",
        *(f"annotation:layout_{action}" for action in ACTS),
        "v1:feedback",  # requires a key of its own from everybody
    },
    Role.REVIEWER: {
        *(f"trajectories:{name}" for name in ("list", "save_view", "remove_view", "picked_forks", "detail", "step")),
        *(f"trajectories:{name}" for name in ("outline", "steps", "map", "search", "partings", "part", "original")),
        *(
            f"trajectories:{name}"
            for name in ("compare", "compare_rows", "tasks", "task", "task_forks", "task_part", "facets")
        ),
        *(f"annotation:{name}" for name in ("items", "progress", "agreement", "quality", "person", "queue_item")),
        *(f"annotation:{name}" for name in ("review", "review_item", "review_rows", "review_part", "remark")),
        *("annotation:judgments_of", "v1:trajectories", "v1:trajectory"),
        *("annotation:comments_of", "annotation:comment", "v1:trajectory_comments", "v1:comment_remove"),
        *(
            f"v1:queue_{name}"
            for name in ("preferences", "inspections", "ratings", "disputed", "adjudications", "items")
        ),
    },
    Role.OWNER: {
        *(f"accounts:{name}" for name in ("change_role", "remove", "invite", "revoke_invitation", "audit")),
        *(f"redaction:{name}" for name in ("list", "new", "test", "remove")),
        *("v1:redaction_rules", "v1:redaction_test", "v1:redaction_rule_remove"),
        *(f"gateway:{name}" for name in ("usage", "set_limits", "set_price", "remove_price")),
        *("v1:prices", "v1:price_remove", "v1:usage_limits"),
        "accounts:revoke_token",  # concerns this token, which is an owner's
        *(f"v1:{name}" for name in ("member_role", "member_remove", "invitations", "invitation_revoke")),
        *("removal:rules", "removal:turn_rule", "removal:remove_rule", "v1:retention_rules", "v1:retention_rule"),
        *("v1:retention_rule_change", "v1:retention_rule_remove"),
        *(f"transfer:{name}" for name in ("transfer", "new_export", "archive", "delete_archive", "new_import")),
        *("v1:exports", "v1:export", "v1:export_archive", "v1:export_delete"),
        *("v1:workspace_imports", "v1:workspace_import"),
        *("jobs:list", "jobs:cancel", "jobs:resume", "v1:jobs", "v1:job_cancel", "v1:job_resume"),
    },
}


def answers(signed_in: Client, address: Address) -> list[int]:
    """Status codes of a read request and, if that finds nothing, of a write request, whose changes are rolled back."""
    with transaction.atomic():
        client = with_cookies_of(signed_in)
        statuses = [client.get(address.path, ASKED.get(address.name)).status_code]
        if not is_there(statuses):
            statuses.append(client.post(address.path, SENT.get(address.name)).status_code)
        transaction.set_rollback(True)
    return statuses


def is_there(statuses: list[int]) -> bool:
    """Whether any status is neither 404 nor 405."""
    return bool(set(statuses) - {404, 405})


def least_role(name: str) -> Role:
    name = name.rstrip("/")  # API URLs with a trailing slash
    return next((role for role, names in SEEN_FROM.items() if name in names), Role.RESEARCHER)


def test_the_lists_above_name_addresses_that_are_there(addresses: list[Address]) -> None:
    known = {address.name for address in addresses}
    assert set().union(PUBLIC, OWN, ASKED, SENT, *SEEN_FROM.values()) <= known


def test_an_address_is_there_from_a_role_upwards(
    owner: Membership, labeler: Membership, addresses: list[Address]
) -> None:
    """Roles are compared by rank, so the lowest role with access, the one below it, and owners represent all. Items on a desk are accessible only to its owner."""
    clients = {role: as_(factories.member(role, of=owner.workspace)) for role in Role}
    person, wrong = as_(labeler), []
    for address in addresses:
        if address.name in PUBLIC:
            continue
        least = least_role(address.name)
        if address.name in OWN:
            expected = dict.fromkeys(clients.values(), False) | {person: True}
        else:
            expected = {clients[role]: role >= least for role in Role if role in (least, least - 1, Role.OWNER)}
        for client, should_be in expected.items():
            statuses = answers(client, address)
            if is_there(statuses) != should_be or max(statuses) > 499:
                wrong.append((address.name, least.label, should_be, statuses))
    assert wrong == []


def test_a_stranger_is_sent_to_sign_in_or_asked_for_a_token(addresses: list[Address]) -> None:
    stranger = Client()
    for address in addresses:
        if address.name not in PUBLIC:
            expected = {401, 405} if address.path.startswith("/api/") else {302}
            assert {stranger.get(address.path).status_code, stranger.post(address.path).status_code} <= expected, (
                address
            )


def test_whoever_opens_a_piece_of_a_page_by_hand_is_led_to_the_page(
    owner: Membership, labeler: Membership, addresses: list[Address]
) -> None:
    bare, led, opened = set(), set(), set()
    for member in (owner, labeler):  # the second opens what only annotators can
        client = Client(headers={"accept": "text/html,*/*;q=0.8"}, raise_request_exception=False)
        client.force_login(member.user)
        for address in addresses:
            if address.path.startswith("/api/v1/") or address.name in opened:
                continue
            query = ASKED.get(address.name)
            answer = client.get(address.path, query)
            if (
                answer.status_code == 302
                and client.get(address.path, query, headers={"accept": "*/*"}).status_code == 200
            ):
                led.add(address.name)
                answer = client.get(answer["Location"])
            if answer.status_code == 200:
                opened.add(address.name)
            if _is_html(answer) and not answer.content.lstrip().lower().startswith(b"<!doctype html"):
                bare.add(address.name)
    assert bare == set()
    assert len(led) > 15


def _is_html(answer: Any) -> bool:
    return answer.status_code == 200 and answer["Content-Type"].startswith("text/html") and not answer.streaming
