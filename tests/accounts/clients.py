"""Test clients, signed in as members."""

from copy import copy
from typing import Any

from asgiref.sync import async_to_sync
from django.test import Client

from apps.accounts.models import Membership


def as_(member: Membership) -> Client:
    """A test client signed in as `member`."""
    client = Client()
    client.force_login(member.user)
    return client


def with_cookies_of(signed_in: Client) -> Client:
    """Another client of the same session, whose cookies responses to it don't change. Signing in again takes longer than most requests."""
    client = Client(raise_request_exception=False)
    client.cookies = copy(signed_in.cookies)
    return client


def body_of(answer: Any) -> bytes:
    """The complete response body, streamed or not."""
    if not answer.streaming:
        return bytes(answer.content)
    if not answer.is_async:
        return b"".join(answer.streaming_content)

    async def pieces() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    return async_to_sync(pieces)()
