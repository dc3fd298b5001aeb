"""One episode with a server that speaks the OpenEnv protocol.

Its episodes live in WebSocket sessions at /ws: {"type": "reset", "data": {"seed"}} and {"type": "step", "data": action}, each answered by
{"type": "observation", "data": {"observation", "reward", "done"}}. Servers without /ws take the same as POST /reset and POST /step {"action"}; those
that hold one episode at a time must be played with `parallel` 1.
"""

import contextlib
import json
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx
from websockets.exceptions import InvalidHandshake, WebSocketException
from websockets.sync.client import connect

from trainer.environments.tools import ToolError
from trainer.records import JsonObject

SECONDS = 120.0
"""For one answer."""
LARGEST_ANSWER = 16 * 1024 * 1024


@dataclass(frozen=True)
class Observed:
    """What the server answers to a reset or a step."""

    observation: JsonObject
    reward: float = 0.0
    done: bool = False
    metadata: JsonObject = field(default_factory=dict)


class ServerError(Exception):
    """The server is gone, or answers what is not of the protocol. This episode cannot go on."""


class Session(Protocol):
    """An episode on a server. Raises ToolError for an action that it refuses, ServerError for all else."""

    def reset(self, seed: int) -> Observed: ...

    def step(self, action: JsonObject) -> Observed: ...

    def close(self) -> None: ...


def open_session(address: str) -> Session:
    """A session with the server at http(s)://…, in a WebSocket where it has them. Raises ServerError."""
    try:
        socket = "ws" + address.removeprefix("http") + "/ws"
        return SocketSession(socket)
    except InvalidHandshake:  # it answers, but not there
        return PlainSession(httpx.Client(base_url=address, timeout=SECONDS))
    except (OSError, TimeoutError) as error:
        raise ServerError(f"{address} cannot be reached: {error}") from error


class SocketSession:
    """The server keeps this episode's state as long as the socket is open."""

    def __init__(self, address: str) -> None:
        self._open = contextlib.ExitStack()
        settings: dict[str, Any] = {"open_timeout": SECONDS, "close_timeout": 1, "max_size": LARGEST_ANSWER}
        self._socket = self._open.enter_context(connect(address, proxy=None, **settings))

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
        said = answer.get("data")
        if answer.get("type") == "error":
            message = str(said.get("message", said) if isinstance(said, dict) else said)[:500]
            if kind == "step":
                raise ToolError(message)
            raise ServerError(f"it refuses to {kind}: {message}")
        return observed(said)


class PlainSession:
    """The server keeps one episode, or none."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def reset(self, seed: int) -> Observed:
        response = self._post("/reset", {"seed": seed})
        if response.is_error:
            raise ServerError(f"it refuses to reset: {response.status_code} {response.text[:300]}")
        return observed(decoded(response.text))

    def step(self, action: JsonObject) -> Observed:
        response = self._post("/step", {"action": action})
        if response.is_client_error:
            raise ToolError(response.text[:500])
        if response.is_error:
            raise ServerError(f"{response.status_code} {response.text[:300]}")
        return observed(decoded(response.text))

    def close(self) -> None:
        self._client.close()

    def _post(self, path: str, body: JsonObject) -> httpx.Response:
        try:
            return self._client.post(path, json=body)
        except httpx.TransportError as error:
            raise ServerError(f"{type(error).__name__} {error}".strip()) from error


def decoded(text: str | bytes) -> JsonObject:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ServerError(f"the answer is no JSON: {text[:200]!r}") from None
    if not isinstance(value, dict):
        raise ServerError(f"the answer is a {type(value).__name__}, expected an object")
    return value


def observed(answer: Any) -> Observed:
    """Raises ServerError where the answer has no observation."""
    if not isinstance(answer, dict) or not isinstance(answer.get("observation"), dict):
        raise ServerError(f"the answer has no observation: {str(answer)[:200]}")
    reward, metadata = answer.get("reward"), answer.get("metadata") or answer["observation"].get("metadata")
    return Observed(
        observation=answer["observation"],
        reward=float(reward) if isinstance(reward, int | float) else 0.0,
        done=bool(answer.get("done")),
        metadata=metadata if isinstance(metadata, dict) else {},
    )
