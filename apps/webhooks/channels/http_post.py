"""A POST of JSON to an address that somebody named. Of the answer nothing is read but its status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus

import httpx

from apps.webhooks.channels.channel import Outcome
from contract.outgoing.networks import AddressRefused, OutgoingRules
from contract.outgoing.transport import Client, http_client

TIMEOUT = 10.0
"""Seconds for connecting, and for the whole answer."""
MOST_READ = 64 * 1024
"""Bytes of an answer that are read, and forgotten, so that the connection can be used again."""


@contextmanager
def client_of_webhooks() -> Iterator[Client]:
    """What connects to addresses that researchers give, and to none of the networks that only servers of models may be in."""
    with http_client("", timeout=TIMEOUT, rules=OutgoingRules.for_webhooks) as client:
        yield client


def post(client: Client, address: str, body: str, headers: Mapping[str, str]) -> Outcome:
    """Send `body`, which is JSON."""
    headers = {**headers, "Content-Type": "application/json", "User-Agent": "Retrace"}
    try:
        with client.stream("POST", address, content=body.encode(), headers=headers) as response:
            _drain(response)
    except AddressRefused as refusal:
        return Outcome(problem=str(refusal))
    except httpx.TimeoutException:
        return Outcome(problem=f"It didn't answer within {TIMEOUT:.0f} s.")
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, OSError):  # the host may be no name
        return Outcome(problem="It couldn't be reached, or broke the connection off.")
    return _outcome(response)


def _drain(response: httpx.Response) -> None:
    count = 0
    try:
        for piece in response.iter_raw():
            count += len(piece)
            if count > MOST_READ:
                return
    except (httpx.HTTPError, OSError):
        return  # it has answered


def _outcome(response: httpx.Response) -> Outcome:
    status = response.status_code
    if response.is_success:
        return Outcome(status)
    if status == HTTPStatus.GONE:
        return Outcome(status, "It answered 410: it wants nothing more.", is_gone=True)
    if response.is_redirect:
        return Outcome(status, f"It redirects ({status}), and redirects aren't followed.")
    return Outcome(status, f"It answered {status}.")
