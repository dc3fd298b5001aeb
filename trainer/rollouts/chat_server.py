"""Serves OpenAI's chat completions with the policy being trained, for agents that run elsewhere, behind the gateway."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from contract.disconnection import cancel_on_disconnect
from contract.outgoing.networks import host_in_url
from trainer.failures import ConfigFailure
from trainer.rollouts.chat_replies import (
    SESSION,
    error_response,
    gone_response,
    reply_response,
    unreadable,
)
from trainer.rollouts.chats import Chats
from trainer.rollouts.local import LocalEngine
from trainer.rollouts.policy import PolicyError

CLOSING_SECONDS = 1


class ChatServer:
    """Answers chats with one engine. Its URL contains a secret that only the gateway knows."""

    def __init__(self, engine: LocalEngine, *, seed: int) -> None:
        self._engine = engine
        self._chats = Chats(engine, seed=seed)
        self._secret = secrets.token_urlsafe(32)
        self.asked_at: float | None = None
        """When the first chat arrived, on the monotonic clock."""
        self.failure: Exception | None = None
        """Why the engine can't answer chats."""

    @asynccontextmanager
    async def listening(self, host: str) -> AsyncIterator[str]:
        """Serve on a free port of `host`, a name or address of this machine; yields the base URL. Raises ConfigFailure."""
        with _bound(host) as listener:
            path = f"/{self._secret}/v1"
            routes = [Route(f"{path}/chat/completions", self._chat_completions, methods=["POST"])]
            config = uvicorn.Config(
                Starlette(routes=routes),
                lifespan="off",
                log_config=None,
                access_log=False,
                ws="none",
                timeout_graceful_shutdown=CLOSING_SECONDS,
            )
            server = _Server(config)
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                yield f"http://{host_in_url(host)}:{listener.getsockname()[1]}{path}"
            finally:
                server.should_exit = True
                await asyncio.gather(serving, return_exceptions=True)

    async def _chat_completions(self, request: Request) -> Response:
        self.asked_at = self.asked_at or time.monotonic()
        try:
            body = await request.json()
            reply = await cancel_on_disconnect(
                self._chats.complete(request.headers.get(SESSION, ""), body), request.receive
            )
        except ClientDisconnect:
            return gone_response()
        except PolicyError as problem:
            return error_response(400, str(problem), "refused_by_policy")
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            return error_response(503, "The training run is being stopped.", "stopping")
        except ConfigFailure as failure:
            self.failure = failure
            return error_response(400, str(failure), "unsupported")
        except Exception as problem:
            if problem is self._engine.failure:  # the same error also ends the training run, which reports it
                self.failure = problem
                return error_response(
                    500, "The policy's engine failed; the training run reports the cause.", "engine_failed"
                )
            return error_response(400, unreadable(problem), "unreadable_chat")
        return reply_response(reply, is_streamed=bool(body.get("stream")))


class _Server(uvicorn.Server):
    """A server embedded in another program, so it doesn't handle signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def _bound(host: str) -> Iterator[socket.socket]:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.bind(address)
    except OSError as error:
        raise ConfigFailure(
            f"TRAINER_HOST: {host} isn't an address of this machine ({error.strerror or error}).",
            advice="Name the address under which the gateway reaches the worker.",
        ) from None
    with listener:
        yield listener
