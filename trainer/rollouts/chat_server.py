"""OpenAI's chat completions by the policy that is being trained, for agents that live elsewhere. The gateway stands before it.

What a policy wrote stays the very tokens that were sampled: a chat that repeats its earlier turns goes on after those tokens, whatever
another library has made of their text.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from contract.chat_digests import digest_of, prefix_digests
from contract.completion_chunks import event_stream
from contract.completions import context_message, for_wire
from contract.messages import Message, ToolSchema
from contract.outgoing.networks import host_in_url
from trainer.failures import ConfigFailure
from trainer.rollouts.local import LocalAgent, LocalEngine
from trainer.rollouts.policy import PolicyError, Turn

SESSION = "x-session-id"
"""The header by which the gateway says whose chat it is."""
CLOSING_SECONDS = 1
LONGEST_WORDS = 500
MOST_REMEMBERED = 128
"""Chats whose tokens needn't be read again at the next turn. Nobody says when an episode is over, so the oldest make room."""


class ChatServer:
    """Answers chats with one engine. Its address holds a secret, so that nobody but the gateway finds it."""

    def __init__(self, engine: LocalEngine, *, seed: int) -> None:
        self._engine = engine
        self._seed = seed
        self._secret = secrets.token_urlsafe(32)
        self._agents: dict[tuple[str, bytes, bytes], LocalAgent] = {}
        """Where each chat so far stands, by session, by what it was offered and told, and by what was said."""
        self._remembering: deque[LocalAgent] = deque()
        self._calls = 0
        self.asked_at: float | None = None
        """When the first chat came, on the monotonic clock."""
        self.failure: Exception | None = None
        """Why the engine can answer no chat."""

    @asynccontextmanager
    async def listening(self, host: str) -> AsyncIterator[str]:
        """Serve on a free port of `host`, a name or address of this machine; gives the base URL. Raises ConfigFailure."""
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
            reply = await self._complete(request.headers.get(SESSION, ""), body)
        except PolicyError as problem:
            return _error(400, str(problem), "refused_by_policy")
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            return _error(503, "The training run is being stopped.", "stopping")
        except ConfigFailure as failure:
            self.failure = failure
            return _error(400, str(failure), "unsupported")
        except Exception as error:
            if error is self._engine.failure:  # whatever it died of, the training run dies of it too, and says so
                self.failure = error
                return _error(500, "The policy's engine failed; the training run says how.", "engine_failed")
            words = f"The policy can't read this chat: {type(error).__name__}: {error}"[:LONGEST_WORDS]
            return _error(400, words, "unreadable_chat")
        if not body.get("stream"):
            return JSONResponse(reply)
        # In one piece: chats are sampled in batches.
        return Response(event_stream(reply, with_usage=True), media_type="text/event-stream")

    async def _complete(self, session: str, body: dict[str, Any]) -> dict[str, Any]:
        """Raises PolicyError, ConfigFailure."""
        sent, tools = body["messages"], body.get("tools") or []
        chat = [context_message(message) for message in sent]
        agent = self._agent(session, sent, tools)
        most = body.get("max_completion_tokens") or body.get("max_tokens") or self._engine.sampling.max_new_tokens
        if type(most) is not int or most < 1:
            raise PolicyError(f"max_tokens is {most!r}; expected a whole number above 0")
        turn = await agent.act(chat, tools, max_tokens=most)
        said = for_wire(turn.message)
        self._agents[self._key(session, sent, tools, [*sent, said])] = agent
        self._remembering.append(agent)
        if len(self._remembering) > MOST_REMEMBERED:
            self._remembering.popleft().forget()
        return self._reply(turn, said, agent.ids)

    def _agent(self, session: str, sent: Sequence[Any], tools: list[ToolSchema]) -> LocalAgent:
        """One that goes on after the policy's last turn in this chat, where it was sampled here and nothing before it was changed."""
        self._calls += 1
        rng = random.Random(f"{self._seed} {session} {self._calls}")
        last = max((place for place, message in enumerate(sent) if message.get("role") == "assistant"), default=-1)
        known = self._agents.get(self._key(session, sent, tools, sent[: last + 1]))
        return known.branch(rng) if known else LocalAgent(self._engine, rng)

    def _key(
        self, session: str, sent: Sequence[Any], tools: list[ToolSchema], chat: Sequence[Any]
    ) -> tuple[str, bytes, bytes]:
        """Of a chat, a beginning of `sent` or what it has become."""
        told = [message for message in sent if message.get("role") in ("system", "developer")]
        return session, digest_of([tools, told]), prefix_digests(chat)[-1] if chat else b""

    def _reply(self, turn: Turn, said: Message, ids: list[int]) -> dict[str, Any]:
        sampled = turn.info["token_ids"]
        is_whole = sampled[-1] in self._engine.ends
        reason = "length" if not is_whole else "tool_calls" if said.get("tool_calls") else "stop"
        logprobs = [{"token": "", "logprob": each, "bytes": None, "top_logprobs": []} for each in turn.info["logprobs"]]
        return {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self._engine.name,
            "choices": [
                {
                    "index": 0,
                    "message": said,
                    "finish_reason": reason,
                    "logprobs": {"content": logprobs},
                    "token_ids": sampled,
                }
            ],
            "prompt_token_ids": ids[: -len(sampled)],
            "usage": {
                "prompt_tokens": turn.prompt_tokens,
                "completion_tokens": turn.completion_tokens,
                "total_tokens": len(ids),
            },
        }


class _Server(uvicorn.Server):
    """A part of another program, whose signals are none of its business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def _bound(host: str) -> Iterator[socket.socket]:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.bind(place)
    except OSError as error:
        raise ConfigFailure(
            f"TRAINER_HOST: {host} is no address of this machine ({error.strerror or error}).",
            advice="Name the address under which the gateway reaches the worker.",
        ) from None
    with listener:
        yield listener


def _error(status: int, message: str, code: str) -> Response:
    return JSONResponse({"error": {"message": message, "type": "policy_error", "code": code}}, status)
