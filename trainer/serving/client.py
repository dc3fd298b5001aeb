"""A client of vLLM servers: lists models, loads adapters, and reads log-probabilities."""

from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

import httpx

from contract.endpoint_keys import KeyRefused, key_for
from contract.outgoing.networks import AddressRefused
from contract.outgoing.replies import json_of, problem_of
from contract.outgoing.transport import http_client

TIMEOUT_SECONDS = 30.0
TOP_TOKENS = 20
"""vLLM's default maximum."""


class ServerProblem(Exception):
    """A request failed: what was requested, and the server's answer."""


class NotReachable(ServerProblem):
    """The server isn't reachable."""


class NoSuchModel(ServerProblem):
    """The server has no model of this name."""


class ServedModel(NamedTuple):
    """Name to request it by."""

    name: str
    root: str
    """The folder or hub id of its weights."""
    parent: str
    """The base model's name if this is an adapter, otherwise empty."""
    max_tokens: int
    """Maximum length of prompt and answer together; 0 if not reported."""


class VllmServer:
    """One server. `url` ends in its version, such as http://127.0.0.1:8000/v1."""

    def __init__(self, url: str, *, key_variable: str = "", timeout: float = TIMEOUT_SECONDS) -> None:
        self.url = url.rstrip("/")
        try:
            key = key_for(key_variable, self.url)
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            self._client = http_client(self.url + "/", headers=headers, timeout=timeout)
        except (KeyRefused, AddressRefused) as refused:
            raise ServerProblem(str(refused)) from None

    def models(self) -> list[ServedModel]:
        """All models that it currently serves."""
        reply = self._ask("GET", "models")
        try:
            cards = json_of(reply)["data"]
            return [
                ServedModel(
                    card["id"], card.get("root") or "", card.get("parent") or "", int(card.get("max_model_len") or 0)
                )
                for card in cards
            ]
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
            raise ServerProblem(f"{self.url} lists no models. Check the address; it ends in /v1.") from None

    def base_model(self) -> ServedModel:
        """The base model of adapters. Raises NoSuchModel."""
        for model in self.models():
            if not model.parent:
                return model
        raise NoSuchModel(f"{self.url} serves no model.")

    def load_adapter(self, name: str, path: str) -> None:
        """Serve the adapter at `path`, a folder as seen by the server, under `name`. Idempotent.

        A name and a path always refer to the same weights, so adapters are never replaced in place: vLLM would reread the
        files in each engine step, and keep using the prefix cache of the previous adapter with that name.
        """
        root = self._root_of(name)
        if root == path:
            return
        if root is not None:  # the server now sees the folder at another path
            self.unload_adapter(name)
        try:
            self._ask("POST", "load_lora_adapter", {"lora_name": name, "lora_path": path})
        except ServerProblem:
            if self._root_of(name) != path:  # a worker presumed dead may have been faster
                raise

    def unload_adapter(self, name: str) -> None:
        """Stop serving `name`. No error if it isn't served."""
        with suppress(NoSuchModel):
            self._ask("POST", "unload_lora_adapter", {"lora_name": name})

    def _root_of(self, name: str) -> str | None:
        return next((model.root for model in self.models() if model.name == name), None)

    def next_tokens(self, model: str, prompt: Sequence[int], *, salt: str = "") -> dict[str, float]:
        """The most likely tokens after `prompt` and their log-probabilities (nats). Raises NoSuchModel.

        salt: limits the server's prefix cache to entries with the same salt.
        """
        body = {"model": model, "prompt": list(prompt), "max_tokens": 1, "temperature": 0, "logprobs": TOP_TOKENS}
        tokens_by_id = {"return_tokens_as_token_ids": True}  # two tokens may have the same text
        reply = self._ask("POST", "completions", body | tokens_by_id | ({"cache_salt": salt} if salt else {}))
        try:
            [top] = json_of(reply)["choices"][0]["logprobs"]["top_logprobs"]
            return {str(token): float(logprob) for token, logprob in top.items()}
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
            raise ServerProblem(f"{self.url} sends no log-probabilities of what comes next (logprobs).") from None

    def logprobs(self, model: str, probes: Sequence[Sequence[int]]) -> list[list[float]]:
        """The log-probability (nats) under `model` of each token of each probe but the first. Raises NoSuchModel."""
        return [self._score(model, list(probe)) for probe in probes]

    def _score(self, model: str, probe: list[int]) -> list[float]:
        body = {"model": model, "prompt": probe, "echo": True, "logprobs": 0, "max_tokens": 1, "temperature": 0}
        reply = self._ask("POST", "completions", body)
        try:
            logprobs = json_of(reply)["choices"][0]["logprobs"]["token_logprobs"]
            return [float(value) for value in logprobs[1 : len(probe)]]
        except (LookupError, TypeError, ValueError, RecursionError):
            raise ServerProblem(f"{self.url} sends no log-probabilities of the prompt (echo with logprobs).") from None

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        try:
            response = self._client.request(method, path, json=body)
        except AddressRefused as refused:
            raise ServerProblem(str(refused)) from None
        except httpx.TransportError as error:
            raise NotReachable(f"{self.url} does not answer: {type(error).__name__} {error}".rstrip(" :")) from None
        if response.is_success:
            return response
        problem = problem_of(response)
        if response.status_code == 404 and "NotFoundError" in response.text:
            raise NoSuchModel(f"{self.url}: {problem}")
        if response.status_code == 404 and path.endswith("_lora_adapter"):
            raise ServerProblem(
                f"{self.url} loads no adapters while it runs. Start vLLM with --enable-lora and "
                "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in its environment."
            )
        raise ServerProblem(f"{self.url} refuses {path}: {problem}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()
