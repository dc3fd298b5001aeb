"""OpenAI's chat completions with an engine in this process.

A policy's turns are kept as sampled tokens: a chat that repeats its earlier turns continues after those tokens, even if
a client library changed their text.
"""

from __future__ import annotations

import random
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any

from contract.chat_digests import digest_of, prefix_digests
from contract.completions import context_message, for_wire
from contract.configs import Sampling
from contract.messages import Message, ToolSchema
from trainer.rollouts.local import LocalAgent, LocalEngine
from trainer.rollouts.policy import PolicyError, Turn

MAX_CHATS = 10_000
"""Maximum known chats; the oldest are evicted and rendered again when needed."""
MAX_TOKENS = 4_000_000
"""Maximum tokens of all known chats."""
MAX_REMEMBERED = 128
"""Maximum chats with a KV cache. The end of an episode isn't known, so the oldest are evicted."""


class Chats:
    """The chats of one engine, which it can continue."""

    def __init__(self, engine: LocalEngine, *, seed: int | str) -> None:
        self.engine = engine
        self._seed = seed
        self._agents: OrderedDict[tuple[str, bytes, bytes], LocalAgent] = OrderedDict()
        """Agents by session, tools, and chat."""
        self._tokens = 0
        """Total tokens of all of them."""
        self._remembered: deque[LocalAgent] = deque()
        self._calls = 0

    async def complete(
        self, session: str, body: dict[str, Any], *, sampling: Sampling | None = None, seed: int | None = None
    ) -> dict[str, Any]:
        """The reply to `body`, with token ids and log-probabilities as vLLM sends them.

        session: whose chat it is. sampling: overrides the engine's. seed: instead of a different one for each call.
        Raises PolicyError, ConfigFailure.
        """
        messages, tools = body["messages"], body.get("tools") or []
        chat = [context_message(message) for message in messages]
        agent = self._agent(session, messages, tools, seed)
        sampling = sampling or self.engine.sampling
        max_tokens = body.get("max_completion_tokens") or body.get("max_tokens") or sampling.max_new_tokens
        if type(max_tokens) is not int or max_tokens < 1:
            raise PolicyError(f"max_tokens is {max_tokens!r}; expected a whole number above 0")
        turn = await agent.act(chat, tools, max_tokens=max_tokens, sampling=sampling)
        reply = for_wire(turn.message)
        self._remember(self._key(session, messages, tools, [*messages, reply]), agent)
        return self._reply(turn, reply, agent.ids)

    def _remember(self, key: tuple[str, bytes, bytes], agent: LocalAgent) -> None:
        if (earlier := self._agents.pop(key, None)) is not None:
            self._tokens -= len(earlier.ids)
        self._agents[key] = agent
        self._tokens += len(agent.ids)
        while len(self._agents) > MAX_CHATS or (self._tokens > MAX_TOKENS and len(self._agents) > 1):
            _, oldest = self._agents.popitem(last=False)
            self._tokens -= len(oldest.ids)
        self._remembered.append(agent)
        while len(self._remembered) > MAX_REMEMBERED or self._exceeds_memory():
            self._remembered.popleft().forget()

    def _exceeds_memory(self) -> bool:
        limit = self.engine.token_limit
        return limit is not None and sum(agent.remembered for agent in self._remembered) > limit

    def _agent(self, session: str, messages: Sequence[Any], tools: list[ToolSchema], seed: int | None) -> LocalAgent:
        """An agent that continues after the policy's last turn in this chat, if that was sampled here and nothing before it changed."""
        self._calls += 1
        rng = random.Random(f"{self._seed} {session} {self._calls}" if seed is None else f"{seed}")
        last = max((index for index, message in enumerate(messages) if message.get("role") == "assistant"), default=-1)
        cached = self._agents.get(self._key(session, messages, tools, messages[: last + 1]))
        return cached.branch(rng) if cached else LocalAgent(self.engine, rng)

    def _key(
        self, session: str, messages: Sequence[Any], tools: list[ToolSchema], chat: Sequence[Any]
    ) -> tuple[str, bytes, bytes]:
        """The key of a chat: a prefix of `messages`, or their continuation."""
        system = [message for message in messages if message.get("role") in ("system", "developer")]
        return session, digest_of([tools, system]), prefix_digests(chat)[-1] if chat else b""

    def _reply(self, turn: Turn, reply: Message, ids: list[int]) -> dict[str, Any]:
        sampled = turn.info["token_ids"]
        is_whole = sampled[-1] in self.engine.ends
        reason = "length" if not is_whole else "tool_calls" if reply.get("tool_calls") else "stop"
        logprobs = [
            {"token": "", "logprob": logprob, "bytes": None, "top_logprobs": []} for logprob in turn.info["logprobs"]
        ]
        return {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.engine.name,
            "choices": [
                {
                    "index": 0,
                    "message": reply,
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
