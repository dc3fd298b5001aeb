"""`Idempotency-Key` for the API's POSTs: requests can be repeated but are executed once.

The change and its response are stored in one transaction, so a killed process leaves both or neither, and a client without a response can
repeat its request. A refusal changes nothing and isn't stored: repeating the request evaluates it again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from django.apps import apps
from django.db import IntegrityError, transaction
from django.utils.crypto import salted_hmac
from rest_framework import status
from rest_framework.exceptions import APIException, NotAuthenticated, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder

from apps.common.advisory_locks import try_lock
from apps.common.models import AnsweredRequest
from apps.common.request_threads import release_connections
from apps.common.text_encoding import is_storable

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
MAX_CHARACTERS = 200
"""Longer keys are refused: if truncated, two keys could collide, and the second request would be lost."""
MAX_KEPT = 64 << 10
"""Maximum characters of a stored response. Some contain whole trajectories, and many requests would fill the database's disk."""
NOT_KEPT = "This request was already carried out, but its response was too long to be kept. Request what it created or changed."
PATIENCE_SECONDS = 10.0
"""How long a second request waits for the first one's response."""


class StillAnswering(APIException):
    """The first request with this key is still in progress."""

    status_code = status.HTTP_409_CONFLICT
    wait = 1
    """Seconds, sent as `Retry-After`: it tells this 409 from that of a state which doesn't allow the request."""
    default_detail = f"The first request with this {HEADER} is still being answered. Send it again in a moment."
    default_code = "conflict"


class KeyReused(APIException):
    """The key was used for a different request."""

    status_code = status.HTTP_422_UNPROCESSABLE_ENTITY
    default_detail = f"This {HEADER} was used for another request. Send each request with a key of its own."
    default_code = "key_reused"


def key_of(request: Request) -> str:
    """The request's key, empty if it has none. Raises ValidationError."""
    key: str = request.headers.get(HEADER, "")
    if len(key) > MAX_CHARACTERS:
        raise ValidationError({HEADER: [f"It has {len(key)} characters; {MAX_CHARACTERS} fit."]})
    if not is_storable(key):
        raise ValidationError({HEADER: ["It has a character that can't be stored. Use letters, digits, and hyphens."]})
    return key


def answer_once(answer: Callable[[], Response], request: Request, *, membership_pk: int) -> Response:
    """The result of `answer`, or its stored result for the same request. Raises KeyReused, StillAnswering, NotAuthenticated if
    the member was removed meanwhile, and whatever `answer` raises."""
    key, fingerprint = key_of(request), _fingerprint(request)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            with transaction.atomic():
                if _is_first(membership_pk, key):
                    answered = AnsweredRequest(membership_id=membership_pk, key=key, fingerprint=fingerprint)
                    return _answer(answer, answered)
        except IntegrityError:
            if _is_member(membership_pk):
                raise
            raise NotAuthenticated from None  # removed in the meantime, so nothing was carried out
        if time.monotonic() > deadline:
            raise StillAnswering
        release_connections()
        time.sleep(0.1)


def _answer(answer: Callable[[], Response], request_row: AnsweredRequest) -> Response:
    rows = AnsweredRequest.objects.filter(membership=request_row.membership_id, key=request_row.key)
    rows.expired().delete()
    if stored := rows.first():
        if stored.fingerprint != request_row.fingerprint:
            raise KeyReused
        headers = {REPLAYED: "true"} | ({"Location": stored.location} if stored.location else {})
        return Response(json.loads(stored.body), status=stored.status, headers=headers)
    response = answer()
    request_row.status = response.status_code
    body = json.dumps(response.data, cls=JSONEncoder)
    request_row.body = body if len(body) <= MAX_KEPT else json.dumps({"detail": NOT_KEPT})
    request_row.location = response.headers.get("Location", "")
    request_row.save(force_insert=True)
    return response


def _fingerprint(request: Request) -> str:
    """Identifies the request's content, ignoring the spacing and key order of JSON.

    A keyed hash: the content may include text that's redacted before storage, and a plain hash would allow guesses to be checked.
    """
    data = request.data
    body = dict(data.lists()) if hasattr(data, "lists") else data
    parts = [request.get_full_path(), body]
    return salted_hmac(HEADER, json.dumps(parts, sort_keys=True, default=str), algorithm="sha256").hexdigest()


def _is_first(membership_pk: int, key: str) -> bool:
    """Try to acquire the lock on this key, held until the transaction ends.

    Doesn't block, since waiting in the database would hold a connection.
    """
    return try_lock(f"request {membership_pk}:{key}")


def _is_member(membership_pk: int) -> bool:
    return apps.get_model("accounts", "Membership").objects.filter(pk=membership_pk).exists()


def delete_expired() -> int:
    """Delete expired records; returns their number."""
    count, _ = AnsweredRequest.objects.expired().delete()
    return count
