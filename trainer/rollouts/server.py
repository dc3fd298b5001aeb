"""A policy behind an OpenAI-compatible server, such as vLLM."""

import asyncio
import json
import re
import time
from typing import Any

import httpx

from contract.completions import for_wire, message_from
from contract.configs import ServerPolicy
from contract.messages import Message, ToolSchema
from contract.outgoing.networks import AddressRefused
from contract.outgoing.replies import json_of, problem_of
from contract.trajectory import Task
from trainer.failures import ConfigFailure
from trainer.rendering.message_form import with_short_ids
from trainer.rollouts.policy import PolicyError, ServerAway, Turn
from trainer.rollouts.react import STOP
from trainer.rollouts.replicas import Replica, Replicas

TRIES = 6
FIRST_WAIT_SECONDS = 0.5
RETRIED = {408, 409, 425, 429, 500, 502, 503, 504}
REFUSED_FOR_ALL = {401, 403, 404}
OF_IDS = re.compile(r"length (?:of )?9\b")
"""Matches the error with which Mistral's templates and servers refuse call ids."""


class IdsRefused(PolicyError):
    """The server only accepts ids of nine letters and digits."""


class ServerEngine:
    """One HTTP client for all episodes; the server does the batching."""

    def __init__(self, config: ServerPolicy, *, parallel: int) -> None:
        self.config = config
        self.name = config.name or config.model
        self._short_ids = False
        self._replicas = Replicas(config, parallel=parallel)

    @property
    def away(self) -> str:
        return self._replicas.away

    async def ready(self) -> None:
        await self._replicas.ready()

    def begin(self, task: Task, seed: int) -> "ServerAgent":
        return ServerAgent(self, self._replicas.next(), seed)

    async def close(self) -> None:
        await self._replicas.close()

    async def complete(self, body: dict[str, Any], replica: Replica) -> dict[str, Any]:
        """Like `ask`, with short call ids if the server requires them.

        Not by default: some templates use the ids assigned by their own servers (Kimi K2's encode the call).
        """
        if not self._short_ids:
            try:
                return await self.ask(body, replica)
            except IdsRefused:
                self._short_ids = True
        return await self.ask({**body, "messages": with_short_ids(body["messages"])}, replica)

    async def ask(self, body: dict[str, Any], replica: Replica) -> dict[str, Any]:
        """The server's response. Raises PolicyError if it refuses this chat, ServerAway if it died, ConfigFailure if no chat can succeed."""
        problem = ""
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(FIRST_WAIT_SECONDS * 2 ** (attempt - 1))
            try:
                # In ASCII: an environment's text may contain lone surrogates, which JSON can represent and UTF-8 can't.
                response = await replica.client.post("chat/completions", content=json.dumps(body))
            except AddressRefused as refused:
                raise ConfigFailure(f"policy.url: {refused}") from None
            except httpx.TransportError as error:
                problem = f"{type(error).__name__} {error}".strip()
                replica.problem = problem
                continue
            if response.is_success:
                self._replicas.waits = True
                replica.problem = ""
                return self._decoded(response)
            problem = problem_of(response)
            if response.status_code >= 500:
                replica.problem = problem
            if response.status_code == 404 and self._replicas.waits:  # it restarted, and hasn't loaded the model yet
                replica.problem = problem
                break
            if OF_IDS.search(response.text):
                raise IdsRefused(f"the server refuses this chat: {problem}")
            if response.is_redirect or response.status_code in REFUSED_FOR_ALL:
                raise ConfigFailure(
                    f"policy.url: {replica.url} doesn't answer: {problem}",
                    advice="Check the address (it ends in /v1), the model's name and the key.",
                )
            if response.status_code not in RETRIED:
                raise PolicyError(f"the server refuses this chat: {problem}")
        if replica.problem and self._replicas.waits:
            raise ServerAway(f"{replica.url} died: {problem}")
        raise ConfigFailure(
            f"policy.url: {replica.url} gave no answer in {TRIES} tries: {problem}",
            advice="Check that the server runs and is reachable from here; what has been rolled out is kept.",
        )

    def _decoded(self, response: httpx.Response) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = json_of(response)
            answer["choices"][0]["message"]["role"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise no_completion() from None
        return answer


class ServerAgent:
    """One episode on the server."""

    def __init__(self, engine: ServerEngine, replica: Replica, seed: int) -> None:
        self._engine = engine
        self._replica = replica
        self._seed = seed
        self._turns = 0

    async def act(self, chat: list[Message], tools: list[ToolSchema], *, max_tokens: int) -> Turn:
        sampling = self._engine.config.sampling
        body: dict[str, Any] = {
            "model": self._engine.config.model,
            "messages": [for_wire(message) for message in chat],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": min(max_tokens, sampling.max_new_tokens),
            "seed": self._seed + self._turns,
            "logprobs": True,
            **({"stop": [STOP]} if self._engine.config.tool_calls == "react" else {}),
            **({"return_token_ids": True} if self._engine.config.token_ids else {}),
        }
        self._turns += 1
        start = time.monotonic()
        answer = await self._engine.complete(body | ({"tools": tools} if tools else {}), self._replica)
        try:
            choice, usage = answer["choices"][0], answer.get("usage") or {}
            return Turn(
                message=message_from(choice["message"]),
                prompt_tokens=usage.get("prompt_tokens"),
                completion_tokens=usage.get("completion_tokens"),
                info={**details_of(choice), "generation_seconds": round(time.monotonic() - start, 4)},
            )
        except (AttributeError, LookupError, TypeError):
            raise no_completion() from None


def no_completion() -> PolicyError:
    """An invalid response only ends its own episode."""
    return PolicyError("the server's answer isn't a chat completion")


def details_of(choice: dict[str, Any]) -> dict[str, Any]:
    """Log-probabilities and token ids if the server sends them, and the finish reason."""
    details: dict[str, Any] = {"finish_reason": choice.get("finish_reason")}
    tokens = (choice.get("logprobs") or {}).get("content") or []
    if tokens:
        details["logprobs"] = [round(token["logprob"], 5) for token in tokens]
    if choice.get("token_ids"):
        details["token_ids"] = choice["token_ids"]
    return details
