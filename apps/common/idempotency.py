"""Requests that may be sent twice and are done once: `Idempotency-Key` of the API's POSTs.

What was asked and its answer are stored in one transaction. So a process that is killed leaves both or neither, and a client that heard nothing can
send its request again. A refusal changes nothing and isn't stored: the same request is looked at again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable

from django.db import connection, transaction
from django.utils.crypto import salted_hmac
from rest_framework import status
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder

from apps.common.models import AnsweredRequest
from apps.common.request_threads import give_back_connections
from apps.common.text_encoding import is_storable

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
MOST_CHARACTERS = 200
"""Cut short, two keys could be one, and the second request would be lost."""
MOST_KEPT = 64 << 10
"""Characters of an answer. Some hold whole trajectories, and whoever sends request after request would fill the database's disk."""
NOT_KEPT = "This request was carried out when it came first. Its answer was too long to be kept: ask for what it made or changed."
PATIENCE_SECONDS = 10.0
"""How long a second request waits for the answer of the first."""


class StillAnswering(APIException):
    """The first request with the key has not come to its end."""

    status_code = status.HTTP_409_CONFLICT
    default_detail = f"The first request with this {HEADER} is still being answered. Send it again in a moment."
    default_code = "conflict"


class KeyReused(APIException):
    """The key stands for another request."""

    status_code = status.HTTP_422_UNPROCESSABLE_ENTITY
    default_detail = f"This {HEADER} was used for another request. Send each request with a key of its own."
    default_code = "key_reused"


def key_of(request: Request) -> str:
    """The key that a request brings, empty where it brings none. Raises ValidationError."""
    key: str = request.headers.get(HEADER, "")
    if len(key) > MOST_CHARACTERS:
        raise ValidationError({HEADER: [f"It has {len(key)} characters; {MOST_CHARACTERS} fit."]})
    if not is_storable(key):
        raise ValidationError({HEADER: ["It has a character that can't be stored. Use letters, digits, and hyphens."]})
    return key


def answer_once(answer: Callable[[], Response], request: Request, *, membership_pk: int) -> Response:
    """What `answer` gives, or gave to the same request before. Raises KeyReused, StillAnswering, and what `answer` raises."""
    key, fingerprint = key_of(request), _fingerprint(request)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with transaction.atomic():
            if _is_first(membership_pk, key):
                return _answer(answer, AnsweredRequest(membership_id=membership_pk, key=key, fingerprint=fingerprint))
        if time.monotonic() > deadline:
            raise StillAnswering
        give_back_connections()
        time.sleep(0.1)


def _answer(answer: Callable[[], Response], asked: AnsweredRequest) -> Response:
    mine = AnsweredRequest.objects.filter(membership=asked.membership_id, key=asked.key)
    mine.expired().delete()
    if known := mine.first():
        if known.fingerprint != asked.fingerprint:
            raise KeyReused
        headers = {REPLAYED: "true"} | ({"Location": known.location} if known.location else {})
        return Response(json.loads(known.body), status=known.status, headers=headers)
    response = answer()
    asked.status = response.status_code
    body = json.dumps(response.data, cls=JSONEncoder)
    asked.body = body if len(body) <= MOST_KEPT else json.dumps({"detail": NOT_KEPT})
    asked.location = response.headers.get("Location", "")
    asked.save(force_insert=True)
    return response


def _fingerprint(request: Request) -> str:
    """Names what is asked. JSON that is only spaced or ordered otherwise asks the same.

    Sealed, since what was asked may hold what is redacted before it's stored, and could be guessed.
    """
    data = request.data
    sent = dict(data.lists()) if hasattr(data, "lists") else data
    asked = [request.get_full_path(), sent]
    return salted_hmac(HEADER, json.dumps(asked, sort_keys=True, default=str), algorithm="sha256").hexdigest()


def _is_first(membership_pk: int, key: str) -> bool:
    """Whether nobody else answers a request with this key now. Holds until the transaction ends.

    It doesn't wait: whoever waits in the database holds a connection.
    """
    name = hashlib.sha256(f"{membership_pk}:{key}".encode()).digest()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [int.from_bytes(name[:8], "big", signed=True)])
        return bool(cursor.fetchone()[0])


def forget_expired() -> int:
    """Remove answers whose time is over; how many there were."""
    count, _ = AnsweredRequest.objects.expired().delete()
    return count
