"""Browsers of people."""

from typing import Any

from asgiref.sync import async_to_sync
from django.test import Client

from apps.accounts.models import Membership


def as_(member: Membership) -> Client:
    """A browser in which `member` is signed in."""
    client = Client()
    client.force_login(member.user)
    return client


def body_of(answer: Any) -> bytes:
    """All that was answered, also where it's sent piece by piece."""
    if not answer.streaming:
        return bytes(answer.content)
    if not answer.is_async:
        return b"".join(answer.streaming_content)

    async def pieces() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    return async_to_sync(pieces)()
