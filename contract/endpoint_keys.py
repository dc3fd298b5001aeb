"""Which API keys of this process's environment go to which servers: those that ENDPOINT_KEYS says, and no others.

Whoever may register a server also names the variable of its key, and must not have the key of another server sent to theirs.
This module imports nothing but the standard library: the web, the workers and the trainer's processes all ask it.
"""

import os
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

SETTING = "ENDPOINT_KEYS"
"""The variable that says it, such as "VLLM_API_KEY=http://vllm:8000 OPENAI_API_KEY=https://api.openai.com"; one key may go to several."""
PORTS = {"http": 80, "https": 443}


class BadAddress(ValueError):
    """No address of a server, or one whose path would not stay a path with more put behind it."""


class KeyRefused(Exception):
    """There is no such key, or it does not go to this server: what was given, what to set."""


class Address(NamedTuple):
    """What tells servers apart. `path` has no slash at its end."""

    scheme: str
    host: str
    port: int
    path: str


class Permission(NamedTuple):
    """The key in `variable` may go to addresses that begin with `prefix`."""

    variable: str
    prefix: Address


def address_of(text: str) -> Address:
    """The parts of a server's address. Raises BadAddress."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise BadAddress(f"{text!r} is no address: {error}.") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise BadAddress(f"{text!r} is no http:// or https:// address, such as http://127.0.0.1:8000/v1.")
    if "@" in parts.netloc:
        raise BadAddress("The address holds a name or a password before its @. Leave them out.")
    if "?" in text or "#" in text:
        raise BadAddress(f"{text!r} goes on after its path. Leave out everything from the ? or # on.")
    # Programs do not agree on what these mean, and the key would go to whichever server the other one reads.
    if not text.isprintable() or any(character in text for character in " \\"):
        raise BadAddress(f"{text!r} holds blanks, backslashes or characters that cannot be seen.")
    if {".", ".."} & set(unquote(parts.path).split("/")):
        raise BadAddress(f"{text!r} has . or .. in its path. Write the path that is meant.")
    return Address(parts.scheme, parts.hostname, PORTS[parts.scheme] if port is None else port, parts.path.rstrip("/"))


def permissions(text: str) -> list[Permission]:
    """What ENDPOINT_KEYS says. Raises ValueError."""
    found = []
    for pair in text.split():
        variable, equals, prefix = pair.partition("=")
        if not (variable and equals):
            raise ValueError(
                f"{SETTING} has {pair!r}; expected a variable and an address, VLLM_API_KEY=http://vllm:8000."
            )
        try:
            found.append(Permission(variable, address_of(prefix)))
        except BadAddress as error:
            raise ValueError(f"{SETTING} has {pair!r}: {error}") from None
    return found


def check_key(variable: str, address: str, allowed: Iterable[Permission]) -> None:
    """Raises KeyRefused where the key in `variable` may not go to `address`, BadAddress."""
    wanted = address_of(address)
    for name, prefix in allowed:
        same_server = wanted[:3] == prefix[:3]
        if name == variable and same_server and f"{wanted.path}/".startswith(f"{prefix.path}/"):
            return
    raise KeyRefused(
        f"The key in {variable} is not sent to {address}. Whoever operates Retrace allows it where web and workers run: "
        f"{variable}={_origin(wanted)} in {SETTING}."
    )


def key_for(variable: str, address: str) -> str:
    """The key in `variable`, to be sent to `address`; "" without a variable. Raises KeyRefused."""
    if not variable:
        return ""
    try:
        check_key(variable, address, permissions(os.environ.get(SETTING, "")))
    except ValueError as error:
        raise KeyRefused(str(error)) from None
    if key := os.environ.get(variable):
        return key
    raise KeyRefused(f"{variable} is not set in the environment of this process; {address} asks for a key.")


def _origin(address: Address) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{address.scheme}://{host}:{address.port}"
