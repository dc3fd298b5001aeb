"""Posts JSON to a user-supplied URL. Only the response's status is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus

import httpx

from apps.webhooks.channels.channel import Outcome
from contract.outgoing.networks import AddressRefused, OutgoingRules
from contract.outgoing.transport import Client, http_client
from contract.quoting import legible

TIMEOUT_SECONDS = 10.0
"""Timeout in seconds for connecting, and for the whole response."""
MAX_READ_BYTES = 64 * 1024
"""Bytes of a response that are read and discarded, so that the connection can be reused."""


@contextmanager
def client_of_webhooks() -> Iterator[Client]:
    """An HTTP client for URLs that researchers enter. It can't reach the networks reserved for model servers."""
    with http_client("", timeout=TIMEOUT_SECONDS, rules=OutgoingRules.for_webhooks) as client:
        yield client


def post(client: Client, address: str, body: str, headers: Mapping[str, str]) -> Outcome:
    """Post `body`, which is JSON."""
    headers = {**headers, "Content-Type": "application/json", "User-Agent": "Retrace"}
    try:
        with client.stream("POST", address, content=body.encode(), headers=headers) as response:
            _drain(response)
    except AddressRefused as refusal:
        return Outcome(problem=legible(str(refusal)))
    except httpx.TimeoutException:
        return Outcome(problem=f"It didn't answer within {TIMEOUT_SECONDS:.0f} s.")
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, OSError):  # the host may not be a valid name
        return Outcome(problem="It couldn't be reached, or closed the connection.")
    return _outcome(response)


def _drain(response: httpx.Response) -> None:
    count = 0
    try:
        for chunk in response.iter_raw():
            count += len(chunk)
            if count > MAX_READ_BYTES:
                return
    except (httpx.HTTPError, OSError):
        return  # the status has arrived


def _outcome(response: httpx.Response) -> Outcome:
    status = response.status_code
    if response.is_success:
        return Outcome(status)
    if status == HTTPStatus.GONE:
        return Outcome(status, "It answered 410: it accepts no more events.", is_gone=True)
    if response.is_redirect:
        return Outcome(status, f"It redirects ({status}), and redirects aren't followed.")
    return Outcome(status, f"It answered {status}.")
