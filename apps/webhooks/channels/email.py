"""Sends an email to a member of the workspace through the installation's mail server."""

from __future__ import annotations

import smtplib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from django.conf import settings
from django.core.mail import EmailMessage

from apps.accounts.models import Membership
from apps.webhooks.channels.channel import Channel, Outcome, Send, line_of
from apps.webhooks.models import Delivery, Destination
from contract.quoting import legible


@contextmanager
def _open(destination: Destination) -> Iterator[Send]:
    yield partial(_send, destination)


def _send(destination: Destination, deliveries: Sequence[Delivery]) -> Outcome:
    members = Membership.objects.filter(workspace=destination.workspace_id, user__is_active=True)
    if not members.filter(user__email__lower=destination.address.lower()).exists():
        return Outcome(problem="This is no longer the address of a member.", is_gone=True)
    try:
        message_of(destination, deliveries).send()
    except (smtplib.SMTPException, OSError):
        return Outcome(problem="The mail server couldn't be reached, or refused the message.")
    except ValueError:  # an address whose domain has no IDNA form
        return Outcome(problem="No mail can be sent to this address.")
    return Outcome()


def message_of(destination: Destination, deliveries: Sequence[Delivery]) -> EmailMessage:
    """Plain text, one line per event."""
    first, more = deliveries[0], len(deliveries) - 1
    subject = f"[Retrace] {first.title}" + (f" and {more} more" if more else "")
    lines = [line_of(delivery) for delivery in deliveries]
    lines += ["", f"Sent because of “{destination.name}” in {destination.workspace}, Settings, Webhooks."]
    return EmailMessage(legible(subject), "\n".join(lines), to=[destination.address])


def notify_turned_off(destination: Destination, reason: str) -> None:
    """Email the person who turned a destination on that Retrace turned it off, if a mail server is configured."""
    person = destination.created_by
    members = Membership.objects.filter(workspace=destination.workspace_id, user=person, user__is_active=True)
    if not settings.EMAIL_HOST or person is None or not members.exists():
        return
    subject = f"[Retrace] “{legible(destination.name)}” was turned off"
    EmailMessage(subject, f"{reason}\n\nIts page is under Settings, Webhooks.", to=[person.email]).send()


CHANNEL = Channel(_open, max_batch=100, pause_seconds=60)
