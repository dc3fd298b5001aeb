"""Pending deliveries are sent once, signed, retried, and given up, over real sockets."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from django.core import mail
from django.db.models import F
from django.utils.timezone import now
from standardwebhooks import Webhook
from standardwebhooks.exceptions import WebhookVerificationError

from apps.accounts.models import AuditEntry, Membership, Role
from apps.webhooks import delivery, destinations, outbox, retention
from apps.webhooks.channels.http_post import client_of_webhooks, post
from apps.webhooks.channels.slack import message_of
from apps.webhooks.destinations import NewDestination
from apps.webhooks.events import EventType
from apps.webhooks.models import Delivery, Destination
from tests import factories
from tests.webhooks.receiver import Received, Receiver

pytestmark = pytest.mark.django_db
Register = Callable[..., NewDestination]


def happen(of: Membership, name: str = "dpo-7", event: EventType = EventType.RUN_FINISHED) -> None:
    outbox.announce(event, workspace_id=of.workspace_id, name=name, page="/training/1/", id="1")


def later(destination: Destination, **by: float) -> None:
    """Simulate the passing of time for pending deliveries."""
    passed = timedelta(**by)
    destination.deliveries.update(next_at=F("next_at") - passed, give_up_at=F("give_up_at") - passed)
    Destination.objects.filter(pk=destination.pk).update(
        quiet_until=None, leased_until=None, failing_since=F("failing_since") - passed
    )


def verified(secret: str, message: Received) -> dict[str, Any]:
    return dict(Webhook(secret).verify(message.body, message.headers))


def test_a_message_is_signed_and_says_what_happened(
    register: Register, researcher: Membership, receiver: Receiver
) -> None:
    made = register()
    happen(researcher)
    delivery.deliver(made.destination.pk)
    [message] = receiver.received
    event = verified(made.secret, message)
    assert event["type"] == "training_run.finished"
    assert event["data"] == {
        "workspace": str(researcher.workspace_id),
        "name": "dpo-7",
        "page": "/training/1/",
        "id": "1",
    }
    assert message.path == "/hooks/retrace?team=a"
    assert message.headers["content-type"] == "application/json"
    row = Delivery.objects.get()
    assert (row.state, row.attempts, row.status, row.problem) == ("delivered", 1, 204, "")
    assert message.headers["webhook-id"] == row.message_id


def test_a_changed_message_is_not_verified(register: Register, researcher: Membership, receiver: Receiver) -> None:
    made = register()
    happen(researcher)
    delivery.deliver(made.destination.pk)
    forged = receiver.received[0]._replace(body=receiver.received[0].body.replace("dpo-7", "dpo-8"))
    with pytest.raises(WebhookVerificationError):
        verified(made.secret, forged)


def test_what_is_delivered_is_not_sent_again(register: Register, researcher: Membership, receiver: Receiver) -> None:
    made = register()
    happen(researcher)
    for _ in range(3):
        delivery.deliver(made.destination.pk)
    assert len(receiver.received) == 1


def test_a_second_worker_leaves_a_destination_to_the_first(
    register: Register, researcher: Membership, receiver: Receiver
) -> None:
    made = register()
    happen(researcher)
    Destination.objects.update(leased_until=now() + timedelta(seconds=60))
    delivery.deliver(made.destination.pk)
    assert receiver.received == []
    Destination.objects.update(leased_until=now() - timedelta(seconds=1))  # the first worker was killed
    delivery.deliver(made.destination.pk)
    assert len(receiver.received) == 1


def test_receivers_of_one_workspace_keep_one_worker_busy(
    register: Register, researcher: Membership, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueued: list[str] = []
    monkeypatch.setattr(delivery, "enqueue", lambda task, pk: enqueued.append(pk))
    first, second = register(name="first").destination, register(name="second").destination
    happen(researcher)
    Destination.objects.filter(pk=first.pk).update(leased_until=now() + timedelta(seconds=60))  # it hangs
    delivery.deliver(second.pk)
    assert receiver.received == []
    other = factories.member(Role.RESEARCHER)
    elsewhere = register(workspace=other.workspace, by=other.user).destination
    happen(other)
    delivery.deliver(elsewhere.pk)
    assert len(receiver.received) == 1
    Destination.objects.filter(pk=first.pk).update(leased_until=None)
    enqueued.clear()
    delivery.deliver(first.pk)
    assert enqueued == [str(second.pk)]  # whose turn it is now


def test_a_worker_that_lost_its_lease_sends_nothing_more(
    register: Register, researcher: Membership, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = register()
    happen(researcher, "one")
    happen(researcher, "two")
    note = delivery._record_outcome

    def noted(*args: Any) -> bool:
        Destination.objects.update(leased_until=now() + timedelta(minutes=7))  # another worker has taken over
        return note(*args)

    monkeypatch.setattr(delivery, "_record_outcome", noted)
    delivery.deliver(made.destination.pk)
    assert len(receiver.received) == 1
    assert Destination.objects.get().leased_until is not None


def test_an_event_has_one_delivery_for_each_destination_that_wants_it(
    register: Register, researcher: Membership
) -> None:
    register(name="runs", events=[EventType.RUN_FINISHED])
    register(name="all")
    register(name="other", events=[EventType.IMPORT_FAILED])
    register(name="off").destination.deliveries.all()
    destinations.change_destination(destination=Destination.objects.get(name="off"), by=researcher.user, is_on=False)
    happen(researcher)
    happen(factories.member(Role.OWNER))  # of another workspace
    rows = Delivery.objects.order_by("destination__name")
    assert [row.destination.name for row in rows] == ["all", "runs"]
    assert len({row.event_id for row in rows}) == 1


def test_a_failure_is_tried_again_with_growing_intervals_and_given_up_after_three_days(
    register: Register, researcher: Membership, receiver: Receiver
) -> None:
    receiver.statuses = [500]
    made = register()
    happen(researcher)
    waits = []
    for _ in range(20):
        delivery.deliver(made.destination.pk)
        row = Delivery.objects.get()
        if row.state == "given_up":
            break
        wait = (row.next_at - now()).total_seconds()
        waits.append(wait)
        later(made.destination, seconds=wait)
    assert row.state == "given_up"
    assert (row.status, row.problem) == (500, "It answered 500.")
    # 15 s, 1 min, 4 min, 16 min, 1 h, 4 h, 12 h … each a fifth more or less.
    assert [round(wait / expected) for wait, expected in zip(waits, [15, 60, 240, 960, 3840], strict=False)] == [1] * 5
    assert all(later > earlier for earlier, later in pairwise(waits[:7]))
    assert 2 < sum(waits) / 86_400 < 3.1
    assert len(receiver.received) == len(waits) + 1


def test_a_failing_destination_is_left_alone_for_a_while(
    register: Register, researcher: Membership, receiver: Receiver
) -> None:
    receiver.statuses = [500]
    made = register()
    for number in range(3):
        happen(researcher, f"run {number}")
    delivery.deliver(made.destination.pk)
    delivery.deliver(made.destination.pk)
    assert len(receiver.received) == 1
    later(made.destination, seconds=1)  # only the pause after a failure is over
    receiver.statuses = [204]
    delivery.deliver(made.destination.pk)
    assert [json.loads(request.body)["data"]["name"] for request in receiver.received[1:]] == ["run 1", "run 2"]
    destination = Destination.objects.get()
    assert (destination.failures, destination.failing_since, destination.is_on) == (0, None, True)


def test_410_turns_a_destination_off_and_says_so(
    register: Register, researcher: Membership, receiver: Receiver
) -> None:
    receiver.statuses = [410]
    made = register()
    happen(researcher, "one")
    happen(researcher, "two")
    delivery.deliver(made.destination.pk)
    destination = Destination.objects.get()
    assert (destination.is_on, destination.off_reason) == (False, "It answered 410: it accepts no more events.")
    assert [row.state for row in Delivery.objects.all()] == ["given_up", "given_up"]
    assert AuditEntry.objects.filter(action="turned off webhook", subject="bot").exists()
    happen(researcher, "three")
    assert Delivery.objects.count() == 2


def test_three_days_of_failures_turn_a_destination_off(
    register: Register, researcher: Membership, receiver: Receiver
) -> None:
    receiver.statuses = [503]
    made = register()
    happen(researcher)
    delivery.deliver(made.destination.pk)
    later(made.destination, days=3, hours=1)
    happen(researcher)
    delivery.deliver(made.destination.pk)
    destination = Destination.objects.get()
    assert (destination.is_on, destination.off_reason) == (
        False,
        "Everything failed for 3 days. Latest: It answered 503.",
    )


def test_whoever_turned_it_on_is_told_by_e_mail_that_it_is_off(
    register: Register,
    researcher: Membership,
    receiver: Receiver,
    settings: Any,
    django_capture_on_commit_callbacks: Any,
) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    receiver.statuses = [410]
    made = register()
    happen(researcher)
    with django_capture_on_commit_callbacks(execute=True):
        delivery.turn_off(made.destination, "It answered 410.")
    [message] = mail.outbox
    assert (message.to, message.subject) == ([researcher.user.email], "[Retrace] “bot” was turned off")


@pytest.mark.parametrize("change", ["removed", "demoted", "deactivated"])
def test_nothing_is_sent_for_somebody_who_may_not_read_it(
    register: Register, researcher: Membership, receiver: Receiver, change: str
) -> None:
    made = register()
    happen(researcher)
    if change == "removed":
        researcher.delete()
    elif change == "demoted":
        Membership.objects.update(role=Role.REVIEWER)
    else:
        researcher.user.is_active = False
        researcher.user.save()
    delivery.deliver(made.destination.pk)
    assert receiver.received == []
    destination = Destination.objects.get()
    assert not destination.is_on
    assert "is no longer a researcher of this workspace" in destination.off_reason


def test_a_redirect_is_not_followed(register: Register, researcher: Membership, receiver: Receiver) -> None:
    receiver.statuses = [307]
    made = register()
    happen(researcher)
    delivery.deliver(made.destination.pk)
    assert [request.path for request in receiver.received] == ["/hooks/retrace?team=a"]
    assert Delivery.objects.get().problem == "It redirects (307), and redirects aren't followed."


def test_nothing_of_an_answer_is_kept_but_its_status(
    register: Register, researcher: Membership, receiver: Receiver
) -> None:
    receiver.statuses, receiver.answer = [400], b"the secret of the metadata service " * 100_000
    made = register()
    happen(researcher)
    delivery.deliver(made.destination.pk)
    row = Delivery.objects.get()
    assert (row.status, row.problem) == (400, "It answered 400.")
    assert "secret" not in str(vars(row))


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:{port}/x",
        "http://localhost:{port}/x",
        "http://[::ffff:127.0.0.1]:{port}/x",
        "http://10.213.7.4:8000/v1/load_lora_adapter",
        "http://169.254.169.254/latest/meta-data",
    ],
)
def test_private_addresses_are_refused_also_those_of_model_servers(
    address: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRACE_ENV", "production")
    monkeypatch.setenv("OUTGOING_NETWORKS", "127.0.0.0/8,::1/128,10.213.7.0/24")
    with client_of_webhooks() as client:
        outcome = post(client, address.format(port=receiver.port), "{}", {})
    assert outcome.status is None
    assert outcome.problem.endswith("can add the network to WEBHOOK_NETWORKS.")
    assert receiver.received == []


def test_a_refusal_that_names_a_long_host_is_recorded(
    register: Register, researcher: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRACE_ENV", "production")
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("127.0.0.1", 80))])
    made = register(address=f"http://{'.'.join(['a' * 60] * 4)}/")
    happen(researcher)
    delivery.deliver(made.destination.pk)
    row = Delivery.objects.get()
    assert (row.state, row.attempts, len(row.problem)) == ("waiting", 1, 300)


def test_a_network_that_the_installation_names_may_be_sent_to(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRACE_ENV", "production")
    monkeypatch.setenv("WEBHOOK_NETWORKS", "127.0.0.0/8")
    with client_of_webhooks() as client:
        assert post(client, receiver.url, "{}", {}) == (204, "", False)


def test_after_a_rotation_both_secrets_sign_for_a_day(
    register: Register, researcher: Membership, receiver: Receiver
) -> None:
    made = register()
    second = destinations.rotate_secret(destination=made.destination, by=researcher.user)
    assert second != made.secret
    happen(researcher)
    delivery.deliver(made.destination.pk)
    assert verified(made.secret, receiver.received[0]) == verified(second, receiver.received[0])
    Destination.objects.update(earlier_until=now() - timedelta(seconds=1))
    happen(researcher)
    delivery.deliver(made.destination.pk)
    verified(second, receiver.received[1])
    with pytest.raises(WebhookVerificationError):
        verified(made.secret, receiver.received[1])


def test_the_secret_is_stored_nowhere(register: Register) -> None:
    made = register()
    assert made.secret.startswith("whsec_")
    assert made.secret.removeprefix("whsec_") not in str(Destination.objects.values_list())


def test_no_more_wait_for_a_destination_than_it_may_have(
    register: Register, researcher: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MAX_WAITING", 3)
    register()
    for _ in range(5):
        happen(researcher)
    assert Delivery.objects.count() == 3


def test_what_nobody_was_told_of_is_sent_by_the_clock(
    register: Register, researcher: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, sent = register(), []
    monkeypatch.setattr(delivery, "enqueue", lambda *args: sent.append(args))
    delivery.deliver_due()
    assert sent == []
    happen(researcher)
    delivery.deliver_due()
    assert sent == [("webhooks.deliver", str(made.destination.pk))]


def test_slack_gets_several_events_in_one_message_in_which_nothing_acts(
    register: Register, researcher: Membership, receiver: Receiver, settings: Any
) -> None:
    settings.SITE_URL = "https://retrace.example.org"
    made = register()
    Destination.objects.update(kind="slack")
    happen(researcher, "<!channel> *run* & <https://x.example|click>")
    happen(researcher, "two")
    delivery.deliver(made.destination.pk)
    [message] = receiver.received
    assert json.loads(message.body) == {
        "text": "Training run finished: &lt;!channel&gt; *run* &amp; &lt;https://x.example|click&gt; "
        "https://retrace.example.org/training/1/\n"
        "Training run finished: two https://retrace.example.org/training/1/",
        "mrkdwn": False,
        "unfurl_links": False,
    }
    assert "webhook-signature" not in message.headers


def test_an_e_mail_goes_to_a_member_and_to_nobody_else(
    register: Register, researcher: Membership, settings: Any
) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    with pytest.raises(destinations.DestinationRefused, match="address of a member"):
        register(kind="email", address="stranger@example.org")
    made = register(kind="email", address=researcher.user.email.upper())
    happen(researcher, "evil\r\nBcc: everybody@example.org")
    happen(researcher, "two")
    delivery.deliver(made.destination.pk)
    [message] = mail.outbox
    assert message.subject == "[Retrace] Training run finished: evil Bcc: everybody@example.org and 1 more"
    assert message.to == [researcher.user.email.upper()]
    assert message.body.splitlines()[1] == "Training run finished: two"
    assert {row.state for row in Delivery.objects.all()} == {"delivered"}
    happen(researcher, "three")
    delivery.deliver(made.destination.pk)
    assert len(mail.outbox) == 1  # at most one per minute


def test_an_e_mail_address_that_is_no_members_any_more_is_turned_off(
    register: Register, researcher: Membership, settings: Any
) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    ben = factories.member(Role.ANNOTATOR, of=researcher.workspace)
    made = register(kind="email", address=ben.user.email)
    happen(researcher)
    ben.delete()
    delivery.deliver(made.destination.pk)
    assert mail.outbox == []
    assert Destination.objects.get().off_reason == "This is no longer the address of a member."


def test_an_e_mail_address_that_no_mail_can_have_fails_like_any_other(
    register: Register, researcher: Membership, settings: Any
) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    researcher.user.email = "a@\u06270.org"  # no domain: it has letters of both directions
    researcher.user.save()
    made = register(kind="email", address=researcher.user.email)
    happen(researcher)
    delivery.deliver(made.destination.pk)
    assert Delivery.objects.get().problem == "No mail can be sent to this address."
    assert Destination.objects.get().leased_until is None  # others of the workspace don't wait for it


def test_a_line_of_slack_is_not_longer_than_the_names_in_it() -> None:
    line = SimpleNamespace(title="&" * 300, page="")
    assert len(json.loads(message_of([line] * 20))["text"]) == 20 * 300 * len("&amp;") + 19


def test_old_deliveries_are_forgotten_and_removed_destinations_with_them(
    register: Register, researcher: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = register()
    for number in range(5):
        happen(researcher, f"run {number}")
    first, second, *_ = Delivery.objects.order_by("pk")
    Delivery.objects.update(state="delivered")
    Delivery.objects.filter(pk=first.pk).update(created_at=now() - timedelta(days=15))
    Delivery.objects.filter(pk=second.pk).update(state="waiting", created_at=now() - timedelta(days=15))
    retention.delete_old_deliveries()
    assert Delivery.objects.count() == 4
    monkeypatch.setattr(retention, "MAX_KEPT", 2)
    retention.delete_old_deliveries()
    assert [row.title[-5:] for row in Delivery.objects.order_by("pk")] == ["run 1", "run 3", "run 4"]
    destinations.remove_destination(destination=made.destination, by=researcher.user)
    retention.delete_old_deliveries()
    assert Destination.objects.count() == 1
    Destination.objects.update(removed_at=now() - timedelta(days=15))
    retention.delete_old_deliveries()
    assert not Destination.objects.exists()
