"""Which API keys of this process's environment may be sent to which servers: only those that ENDPOINT_KEYS allows.

Whoever registers a server also names the variable of its key, and mustn't be able to have another server's key sent to theirs.
This module imports nothing but the standard library: the web, the workers and the trainer's processes all ask it.
"""

import os
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

SETTING = "ENDPOINT_KEYS"
"""The variable that lists them, such as "VLLM_API_KEY=http://vllm:8000 OPENAI_API_KEY=https://api.openai.com"; one key may be allowed for several servers."""
PORTS = {"http": 80, "https": 443}


class BadAddress(ValueError):
    """Not a server address, or one whose path would change meaning when more is appended."""


class KeyRefused(Exception):
    """There is no such key, or it may not be sent to this server. Says what to set."""


class Address(NamedTuple):
    """The parts that identify a server. `path` has no trailing slash."""

    scheme: str
    host: str
    port: int
    path: str


class Permission(NamedTuple):
    """The key in `variable` may be sent to addresses under `prefix`."""

    variable: str
    prefix: Address


def address_of(text: str) -> Address:
    """The parts of a server's address. Raises BadAddress."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise BadAddress(f"{text!r} isn't an address: {error}.") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise BadAddress(f"{text!r} isn't an http:// or https:// address, such as http://127.0.0.1:8000/v1.")
    if "@" in parts.netloc:
        raise BadAddress("The address has a user name or password before its @. Leave them out.")
    if "?" in text or "#" in text:
        raise BadAddress(f"{text!r} has a query or fragment. Leave out everything from the ? or # on.")
    # Parsers disagree on what these mean, so the key could be sent to a server other than the one checked here.
    if not text.isprintable() or any(character in text for character in " \\"):
        raise BadAddress(f"{text!r} contains whitespace, backslashes, or invisible characters.")
    if {".", ".."} & set(unquote(parts.path).split("/")):
        raise BadAddress(f"{text!r} has . or .. in its path. Write the path without them.")
    return Address(parts.scheme, parts.hostname, PORTS[parts.scheme] if port is None else port, parts.path.rstrip("/"))


def permissions(text: str) -> list[Permission]:
    """Parse ENDPOINT_KEYS. Raises ValueError."""
    permissions = []
    for pair in text.split():
        variable, equals, prefix = pair.partition("=")
        if not (variable and equals):
            raise ValueError(
                f"{SETTING} has {pair!r}; expected a variable and an address, VLLM_API_KEY=http://vllm:8000."
            )
        try:
            permissions.append(Permission(variable, address_of(prefix)))
        except BadAddress as error:
            raise ValueError(f"{SETTING} has {pair!r}: {error}") from None
    return permissions


def check_key(variable: str, address: str, allowed: Iterable[Permission]) -> None:
    """Raises KeyRefused if the key in `variable` may not be sent to `address`, or BadAddress."""
    normalized = address_of(address)
    for name, prefix in allowed:
        same_server = normalized[:3] == prefix[:3]
        if name == variable and same_server and f"{normalized.path}/".startswith(f"{prefix.path}/"):
            return
    raise KeyRefused(
        f"The key in {variable} is not sent to {address}. To allow it, set this for the web server and the workers: "
        f"{variable}={_origin(normalized)} in {SETTING}."
    )


def key_for(variable: str, address: str) -> str:
    """The key in `variable`, for requests to `address`; "" without a variable. Raises KeyRefused."""
    if not variable:
        return ""
    try:
        check_key(variable, address, permissions(os.environ.get(SETTING, "")))
    except ValueError as error:
        raise KeyRefused(str(error)) from None
    if key := os.environ.get(variable):
        return key
    raise KeyRefused(f"{variable} isn't set in this process's environment; {address} needs a key.")


def _origin(address: Address) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{address.scheme}://{host}:{address.port}"
