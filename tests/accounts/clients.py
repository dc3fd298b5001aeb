"""Browsers of people."""

from django.test import Client

from apps.accounts.models import Membership


def as_(member: Membership) -> Client:
    """A browser in which `member` is signed in."""
    client = Client()
    client.force_login(member.user)
    return client
