"""One episode with a server that speaks the OpenEnv protocol.

Its episodes live in WebSocket sessions at /ws: {"type": "reset", "data": {"seed"}} and {"type": "step", "data": action}, each answered by
{"type": "observation", "data": {"observation", "reward", "done"}}. Servers without /ws take the same as POST /reset and POST /step {"action"}. They
hold one episode, so the episodes of this process take turns.
"""

import contextlib
import json
import math
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx
from websockets.exceptions import InvalidHandshake, WebSocketException
from websockets.sync.client import connect

from contract.outgoing.networks import AddressRefused
from contract.outgoing.transport import connected_socket, http_client
from contract.quoting import legible
from contract.values import JsonObject
from trainer.environments.tools import ToolError

SECONDS = 120.0
"""Timeout of one request."""
LARGEST_ANSWER = 16 * 1024 * 1024
TURNS: dict[str, threading.Lock] = {}
"""Held by the episode that is being played, for each server that holds one."""


@dataclass(frozen=True)
class Observed:
    """The server's answer to a reset or a step."""

    observation: JsonObject
    reward: float = 0.0
    done: bool = False
    metadata: JsonObject = field(default_factory=dict)


class ServerError(Exception):
    """The server is gone, or violates the protocol. This episode can't continue."""


class Session(Protocol):
    """An episode on a server. Raises ToolError for a refused action, ServerError for anything else."""

    def reset(self, seed: int) -> Observed: ...

    def step(self, action: JsonObject) -> Observed: ...

    def close(self) -> None: ...


def open_session(address: str) -> Session:
    """A session with the server at http(s)://…, over a WebSocket if supported. Raises ServerError."""
    try:
        socket = "ws" + address.removeprefix("http") + "/ws"
        return SocketSession(socket)
    except InvalidHandshake:  # it responds, but not at /ws
        return PlainSession(http_client(address, timeout=SECONDS), TURNS.setdefault(address, threading.Lock()))
    except AddressRefused as refused:
        raise ServerError(str(refused)) from None
    except (OSError, TimeoutError) as error:
        raise ServerError(f"{address} cannot be reached: {error}") from error


class SocketSession:
    """The server keeps this episode's state as long as the socket is open."""

    def __init__(self, address: str) -> None:
        self._open = contextlib.ExitStack()
        settings: dict[str, Any] = {"open_timeout": SECONDS, "close_timeout": 1, "max_size": LARGEST_ANSWER}
        parts = urlsplit(address)
        port = parts.port or (443 if parts.scheme == "wss" else 80)
        checked = connected_socket(parts.hostname or "", port, timeout=SECONDS)
        self._socket = self._open.enter_context(connect(address, sock=checked, proxy=None, **settings))

    def reset(self, seed: int) -> Observed:
        return self._ask("reset", {"seed": seed})

    def step(self, action: JsonObject) -> Observed:
        return self._ask("step", action)

    def close(self) -> None:
        with contextlib.suppress(WebSocketException, OSError):
            self._socket.send(json.dumps({"type": "close"}))
        self._open.close()

    def _ask(self, kind: str, data: JsonObject) -> Observed:
        try:
            self._socket.send(json.dumps({"type": kind, "data": data}))
            answer = decoded(self._socket.recv(timeout=SECONDS))
        except (WebSocketException, OSError, TimeoutError) as error:
            raise ServerError(f"the session broke off: {type(error).__name__} {error}".strip()) from error
        payload = answer.get("data")
        if answer.get("type") == "error":
            message = str(payload.get("message", payload) if isinstance(payload, dict) else payload)[:500]
            if kind == "step":
                raise ToolError(message)
            raise ServerError(f"it refuses to {kind}: {message}")
        return observed(payload)


class PlainSession:
    """The server keeps one episode, or none: waits until the one before is closed."""

    def __init__(self, client: httpx.Client, turn: threading.Lock) -> None:  # noqa: TID251 - one that `http_client` made
        self._client = client
        self._turn = contextlib.ExitStack()
        self._turn.enter_context(turn)

    def reset(self, seed: int) -> Observed:
        status, text = self._post("/reset", {"seed": seed})
        if not httpx.codes.is_success(status):
            raise ServerError(f"it refuses to reset ({status}){in_brackets(text)}")
        return observed(decoded(text))

    def step(self, action: JsonObject) -> Observed:
        status, text = self._post("/step", {"action": action})
        if httpx.codes.is_client_error(status):
            raise ToolError(detail_in(text) or f"the server refuses this action ({status})")
        if not httpx.codes.is_success(status):
            raise ServerError(f"it failed ({status}){in_brackets(text)}")
        return observed(decoded(text))

    def close(self) -> None:
        self._client.close()
        self._turn.close()

    def _post(self, path: str, body: JsonObject) -> tuple[int, str]:
        """The status and body. Read in chunks with limits: a server may send endlessly, or very slowly."""
        deadline = time.monotonic() + SECONDS
        answer = bytearray()
        try:
            with self._client.stream("POST", path, json=body) as response:
                for piece in response.iter_bytes():
                    answer += piece
                    if len(answer) > LARGEST_ANSWER:
                        raise ServerError(f"the answer has more than {LARGEST_ANSWER >> 20} MB")
                    if time.monotonic() > deadline:
                        raise ServerError(f"the answer was still incomplete after {SECONDS:.0f} s")
                return response.status_code, answer.decode(errors="replace")
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise ServerError(f"{type(error).__name__} {error}".strip()) from error


def detail_in(text: str) -> str:
    """The message of a protocol error (`{"detail": …}`); "" for anything else, which isn't quoted."""
    try:
        reply = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    detail = reply.get("detail") if isinstance(reply, dict) else None
    return legible(detail if isinstance(detail, str) else json.dumps(detail), 500) if detail else ""


def in_brackets(text: str) -> str:
    return f": {detail}" if (detail := detail_in(text)) else ""


def decoded(text: str | bytes) -> JsonObject:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ServerError("the answer isn't JSON") from None
    if not isinstance(value, dict):
        raise ServerError(f"the answer is a {type(value).__name__}, expected an object")
    return value


def observed(answer: Any) -> Observed:
    """Parse an answer. Raises ServerError if the observation is missing, or `reward` or `done` is invalid, since that would be training on noise."""
    if not isinstance(answer, dict) or not isinstance(answer.get("observation"), dict):
        raise ServerError("the answer has no observation")
    metadata = answer.get("metadata") or answer["observation"].get("metadata")
    done = answer.get("done")
    if not isinstance(done, bool | None):
        raise ServerError(f"done is {str(done)[:100]!r}, expected true or false")
    return Observed(
        observation=answer["observation"],
        reward=reward_of(answer.get("reward")),
        done=bool(done),
        metadata=metadata if isinstance(metadata, dict) else {},
    )


def reward_of(value: Any) -> float:
    """0 if missing. Raises ServerError if it isn't a finite number."""
    try:
        reward = 0.0 if value is None else float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        reward = math.inf
    if not math.isfinite(reward):
        raise ServerError(f"the reward is {str(value)[:100]!r}, expected a finite number or null")
    return reward
