"""The pages and REST API of webhooks, for members and outsiders."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import AuditEntry, Membership, Role
from apps.common.limits import Limit
from apps.webhooks import destinations, outbox
from apps.webhooks.destinations import DestinationRefused, NewDestination
from apps.webhooks.events import EventType
from apps.webhooks.models import Delivery, Destination
from tests import factories
from tests.accounts.clients import as_
from tests.webhooks.receiver import Receiver

pytestmark = pytest.mark.django_db
Register = Callable[..., NewDestination]
GIVEN = {"kind": "webhook", "name": "bot", "address": "https://example.org/hook", "events": ["import.failed"]}


def test_the_secret_is_shown_once(researcher: Membership) -> None:
    client = as_(researcher)
    page = client.post(reverse("webhooks:new"), GIVEN)
    assert page.status_code == 200
    [secret] = re.findall(r"whsec_[\w+/]+=", page.text)
    assert "no-store" in page["Cache-Control"]
    again = client.get(reverse("webhooks:destination", args=[Destination.objects.get().pk]))
    assert secret not in again.text
    assert AuditEntry.objects.get(action="made webhook").detail["address"] == "https://example.org/hook"


@pytest.mark.parametrize(
    ("kind", "address", "words"),
    [
        ("webhook", "example.org/hook", "Give a whole URL"),
        ("webhook", "ftp://example.org/hook", "Give a whole URL"),
        ("webhook", "https://", "Give a whole URL"),
        ("webhook", "https://exa mple.org", "Give a whole URL"),
        ("webhook", "https://example.org:99999/", "Give a whole URL"),
        ("webhook", "https://[::1/", "Give a whole URL"),
        ("webhook", "https://xn--/", "Give a whole URL"),
        ("webhook", "https://me:secret@example.org/", "Leave out the name and password"),
        ("slack", "http://hooks.slack.com/services/T/B/x", "begin with https"),
        ("email", "ann@example.org", "no mail server"),
    ],
)
def test_what_is_no_address_is_refused_in_words(researcher: Membership, kind: str, address: str, words: str) -> None:
    page = as_(researcher).post(reverse("webhooks:new"), {**GIVEN, "kind": kind, "address": address})
    assert page.status_code == 422
    assert words in page.text
    assert not Destination.objects.exists()


def test_slacks_address_is_a_secret(register: Register, researcher: Membership) -> None:
    secret = "https://hooks.slack.com/services/T000/B000/abcdefgh1234"
    made = register(kind="slack", address=secret)
    client, token = as_(researcher), factories.token(researcher)
    path = reverse("v1:webhook", args=[made.destination.pk])
    answers = [
        client.get(reverse("webhooks:list")).text,
        client.get(reverse("webhooks:destination", args=[made.destination.pk])).text,
        client.get(path, headers={"authorization": f"Bearer {token}"}).text,
        str(AuditEntry.objects.values_list("detail")),
    ]
    assert all("hooks.slack.com/…1234" in answer and "abcdefgh" not in answer for answer in answers)
    assert made.secret == ""


def test_a_test_is_sent_and_a_delivery_is_sent_again_with_its_id(register: Register, researcher: Membership) -> None:
    made, client = register(), as_(researcher)
    page = reverse("webhooks:destination", args=[made.destination.pk])
    assert client.post(reverse("webhooks:test", args=[made.destination.pk])).url == page
    [sent] = Delivery.objects.all()
    assert (sent.type, sent.state) == ("webhook.test", "waiting")
    again = reverse("webhooks:resend", args=[sent.pk])
    assert "is already waiting for its next attempt" in client.post(again, follow=True).text
    Delivery.objects.update(state="given_up", attempts=12)
    client.post(again)
    [row] = Delivery.objects.all()
    assert (row.state, row.attempts, row.message_id) == ("waiting", 0, sent.message_id)


def test_nothing_is_sent_to_what_is_off(register: Register, researcher: Membership) -> None:
    made, client = register(), as_(researcher)
    outbox.announce(EventType.RUN_FAILED, workspace_id=researcher.workspace_id, name="x", page="/")
    client.post(reverse("webhooks:turn", args=[made.destination.pk]))
    row = Delivery.objects.get()
    assert (row.state, row.problem) == ("given_up", "It was turned off.")
    assert "turned off" in client.post(reverse("webhooks:test", args=[made.destination.pk]), follow=True).text
    assert "turned off" in client.post(reverse("webhooks:resend", args=[row.pk]), follow=True).text
    assert Delivery.objects.count() == 1


def test_whoever_turns_it_on_answers_for_it(register: Register, researcher: Membership) -> None:
    made = register()
    Destination.objects.update(is_on=False, off_reason="It answered 410.", failures=4)
    other = factories.member(Role.OWNER, of=researcher.workspace)
    as_(other).post(reverse("webhooks:turn", args=[made.destination.pk]), {"is_on": "on"})
    destination = Destination.objects.get()
    assert (destination.is_on, destination.off_reason, destination.failures, destination.created_by) == (
        True,
        "",
        0,
        other.user,
    )


def test_turning_off_what_is_off_already_leaves_it_off(register: Register, researcher: Membership) -> None:
    made, client = register(), as_(researcher)
    shown = client.get(reverse("webhooks:destination", args=[made.destination.pk])).text
    assert ("Turn off" in shown, 'name="is_on"' in shown) == (True, False)
    Destination.objects.update(is_on=False, off_reason="It answered 410.")
    client.post(reverse("webhooks:turn", args=[made.destination.pk]))
    assert Destination.objects.values_list("is_on", "off_reason").get() == (False, "It answered 410.")


def test_an_earlier_secret_is_named_only_while_it_signs(register: Register, researcher: Membership) -> None:
    made, client = register(), as_(researcher)
    page = reverse("webhooks:destination", args=[made.destination.pk])
    client.post(reverse("webhooks:rotate", args=[made.destination.pk]))
    assert "The previous secret also signs" in client.get(page).text
    Destination.objects.update(earlier_until=now() - timedelta(minutes=1))
    shown = client.get(page).text
    assert ("The previous secret also signs" in shown, "for 24" in shown) == (False, True)


def test_what_retrace_turned_off_is_said_on_the_home_page(register: Register, researcher: Membership) -> None:
    register()
    Destination.objects.update(is_on=False, off_reason="It answered 410.")
    home = as_(researcher).get(reverse("home")).text
    assert "“bot” gets no more events" in home


def test_a_removed_webhook_is_gone(register: Register, researcher: Membership) -> None:
    made, client = register(), as_(researcher)
    client.post(reverse("webhooks:remove", args=[made.destination.pk]))
    assert client.get(reverse("webhooks:destination", args=[made.destination.pk])).status_code == 404
    assert "bot" not in client.get(reverse("webhooks:list")).text.replace("deploy bot", "")
    outbox.announce(EventType.RUN_FAILED, workspace_id=researcher.workspace_id, name="x", page="/")
    assert not Delivery.objects.exists()


def test_a_workspace_has_twenty_at_most(register: Register) -> None:
    for number in range(20):
        register(name=str(number))
    with pytest.raises(DestinationRefused, match="20 webhooks at most"):
        register()


def test_outsiders_and_lower_roles_find_nothing(register: Register, researcher: Membership) -> None:
    made = register()
    destinations.send_test(destination=made.destination, by=researcher.user)
    row = Delivery.objects.get()
    for member in (factories.member(Role.OWNER), factories.member(Role.REVIEWER, of=researcher.workspace)):
        client = as_(member)
        for name in ("change", "turn", "rotate", "test", "remove"):
            assert client.post(reverse(f"webhooks:{name}", args=[made.destination.pk])).status_code == 404
        assert client.get(reverse("webhooks:destination", args=[made.destination.pk])).status_code == 404
        assert client.post(reverse("webhooks:resend", args=[row.pk])).status_code == 404


def test_what_is_sent_by_hand_is_counted_for_each_person(
    client: Client, register: Register, researcher: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(destinations, "MANUAL_SENDS", Limit("few", tries=1, seconds=10**9))
    made = register()
    destinations.send_test(destination=made.destination, by=researcher.user)
    Delivery.objects.update(state=Delivery.State.DELIVERED)
    headers = {"authorization": f"Bearer {factories.token(researcher)}"}
    tested = client.post(reverse("v1:webhook_test", args=[made.destination.pk]), headers=headers)
    again = client.post(reverse("v1:webhook_resend", args=[Delivery.objects.get().pk]), headers=headers)
    assert (tested.status_code, again.status_code) == (429, 429)
    assert "throttled" in tested.json()["detail"]
    path = reverse("webhooks:test", args=[made.destination.pk])
    assert as_(researcher).post(path).status_code == 429
    assert Delivery.objects.get().state == "delivered"


def test_the_whole_of_it_over_rest(client: Client, researcher: Membership, receiver: Receiver) -> None:
    headers = {"authorization": f"Bearer {factories.token(researcher)}"}

    def post(operation: str, *args: Any, **body: Any) -> Any:
        path = reverse(f"v1:{operation}", args=args)
        return client.post(path, body, content_type="application/json", headers=headers)

    made = post("webhooks", name="bot", address=receiver.url, events=["session.finished"])
    assert made.status_code == 201, made.json()
    reply = made.json()
    assert reply["secret"].startswith("whsec_")
    listed = client.get(reverse("v1:webhooks"), headers=headers).json()["results"]
    assert [{**entry, "secret": reply["secret"]} for entry in listed] == [reply]
    changed = post("webhook_change", reply["id"], events=["session.abandoned", "import.failed"])
    assert changed.json()["events"] == ["import.failed", "session.abandoned"]
    assert post("webhook_rotate", reply["id"]).json()["secret"] != reply["secret"]
    test = post("webhook_test", reply["id"])
    assert test.status_code == 202
    rows = client.get(reverse("v1:webhook_deliveries", args=[reply["id"]]), headers=headers).json()["results"]
    assert rows == [test.json()]
    assert post("webhook_resend", test.json()["id"]).status_code == 409
    assert post("webhooks", name="bot", address=receiver.url, events=["no.such"]).status_code == 400
    assert post("webhook_remove", reply["id"]).status_code == 200
    assert client.get(reverse("v1:webhook", args=[reply["id"]]), headers=headers).status_code == 404
