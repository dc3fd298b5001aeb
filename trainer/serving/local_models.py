"""Serves chats with this installation's small trained models, for its gateways.

    LOCAL_MODELS_KEY=… python -m trainer.serving.local_models --runs var/runs --port 8001

It speaks OpenAI's chat completions, with token ids and log-probabilities as vLLM sends them. `model` is the id of the training run. A model is loaded
on its first chat, and so is torch, so that an unused server takes hardly any memory.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import os
import secrets
import signal
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import uvicorn
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from contract.configs import LocalPolicy, ModelConfig, Sampling
from contract.disconnection import cancel_on_disconnect
from trainer.interruption import StopRequest
from trainer.rollouts.chat_replies import (
    MAX_MESSAGE_LENGTH,
    SESSION,
    WORKSPACE,
    error_response,
    gone_response,
    reply_response,
    unreadable,
)

if TYPE_CHECKING:
    from trainer.rollouts.chats import Chats

KEY = "LOCAL_MODELS_KEY"
"""The environment variable with the gateways' API key."""
MAX_LOADED = 4
"""Maximum models in memory; the least recently used idle one is evicted."""
LARGEST_BYTES = 4 * 1024**3
"""Maximum bytes of a model's weights. Larger ones need a separate server."""
MAX_BYTES = 6 * 1024**3
"""Maximum bytes of weights of all models in memory."""
CACHE_BYTES = 2 * 1024**3
"""KV cache limit for the chats of one batch, and again for cached chats."""
PREFILL_BYTES = 1024**3
"""Limit for the activations of a batch's prompts. Longer ones are read in pieces."""
TEMPLATE_SECONDS = 10.0
"""Time limit of a chat template, a program from the base model's author, for one turn."""
SILENT_SECONDS = 120
"""If the event loop is blocked for so long, the process exits and its supervisor restarts it."""
MAX_CHATS, MAX_PER_MODEL = 64, 32
"""Maximum concurrent chats, overall and per model. Beyond that, clients are told to retry."""
SHARE = 2
"""While other workspaces send chats, each may use at most 1/SHARE of the chat and model slots."""
ASKS_SECONDS = 60.0
"""How long after its last chat a workspace counts as active."""
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "stop": ("", []),
    "response_format": ({"type": "text"},),
    "tool_choice": ("auto",),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "top_k": (0, -1),
    "min_p": (0,),
}
"""Unsupported sampling parameters, with their neutral values. Other values are refused, since silently ignoring them would
be misleading."""


LOADING = threading.Lock()
"""transformers changes global state while loading a model: of two concurrent loads, one may get no weights."""

BUSY = "The server answers as many chats as it can. Try again in a moment."


class Refused(Exception):
    """An error response in OpenAI's format."""

    def __init__(self, status: int, message: str, code: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class ChatRequest(NamedTuple):
    """A parsed request."""

    model: str
    sampling: Sampling
    seed: int | None
    is_streamed: bool


@dataclass
class ModelSlot:
    """A slot for a model in memory, reserved before the model is loaded."""

    size: int
    """Bytes of weights."""
    workspace: str
    """The model's workspace, according to the gateway."""
    users: int = 0
    """Running and waiting chats, and loading: it isn't evicted while there are any."""
    chats: Chats | None = None
    loading: asyncio.Task[Chats] | None = None
    """Goes on if the clients that wait for it disconnect: they come back, and must not find it begun anew."""


class LocalModels:
    """Models by training run, as many as fit."""

    def __init__(self, runs: Path, *, key: str) -> None:
        self._runs = runs
        self._key = key
        self._slots: OrderedDict[str, ModelSlot] = OrderedDict()
        self._asked_at: dict[str, float] = {}
        """When each workspace sent its last chat, by time.monotonic."""
        self.stop = StopRequest()

    def application(self) -> Starlette:
        routes = [
            Route("/v1/models", self._models),
            Route("/v1/chat/completions", self._chat_completions, methods=["POST"]),
        ]
        return Starlette(routes=routes)

    async def _models(self, request: Request) -> Response:
        """Lists models in memory; others can be requested, too."""
        if not self._is_authorized(request):
            return _refusal(Refused(401, "The key isn't this server's.", "invalid_api_key"))
        cards = [{"id": name, "object": "model", "owned_by": "retrace"} for name in self._slots]
        return JSONResponse({"object": "list", "data": cards})

    async def _chat_completions(self, request: Request) -> Response:
        try:
            if not self._is_authorized(request):
                raise Refused(401, "The key isn't this server's.", "invalid_api_key")
            body = await _body(request)
            chat = parse_request(body)
            with self._slot(chat.model, request.headers.get(WORKSPACE, "")) as slot:
                reply = await cancel_on_disconnect(
                    self._reply(slot, request.headers.get(SESSION, ""), body, chat), request.receive
                )
        except Refused as refused:
            return _refusal(refused)
        except ClientDisconnect:
            return gone_response()
        return reply_response(reply, is_streamed=chat.is_streamed)

    async def _reply(self, slot: ModelSlot, session: str, body: dict[str, Any], chat: ChatRequest) -> dict[str, Any]:
        """Raises Refused."""
        chats = await self._chats(slot, chat.model)
        try:
            return await chats.complete(session, body, sampling=chat.sampling, seed=chat.seed)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise Refused(503, "The server is being stopped.", "stopping") from None
        except Exception as problem:  # a chat template may raise anything
            if problem is chats.engine.failure:
                if slot.chats is chats:
                    slot.chats = None  # it's reloaded for the next chat
                raise Refused(500, f"The model failed: {type(problem).__name__}.", "engine_failed") from problem
            raise Refused(400, unreadable(problem), "unreadable_chat") from None

    @contextmanager
    def _slot(self, model: str, workspace: str) -> Iterator[ModelSlot]:
        """The model's slot, held while it answers a chat. Raises Refused."""
        self._refuse_beyond_share(model, workspace)
        if sum(slot.users for slot in self._slots.values()) >= MAX_CHATS:
            raise Refused(503, BUSY, "server_busy")
        slot = self._slots.get(model)
        if slot is None:
            slot = ModelSlot(_size(self._folder(model)), workspace)
            self._make_room(slot.size)
            self._slots[model] = slot
        if slot.users >= MAX_PER_MODEL:
            raise Refused(503, BUSY, "server_busy")
        self._slots.move_to_end(model)
        with self._used(slot, model):
            yield slot

    @contextmanager
    def _used(self, slot: ModelSlot, model: str) -> Iterator[None]:
        slot.users += 1
        try:
            yield
        finally:
            slot.users -= 1
            if not slot.users and slot.chats is None:  # it couldn't be loaded
                del self._slots[model]

    def _refuse_beyond_share(self, model: str, workspace: str) -> None:
        """Raises Refused if the workspace has used up its share. Slots it already holds beyond that aren't taken away."""
        current_time = time.monotonic()
        self._asked_at = {name: at for name, at in self._asked_at.items() if at > current_time - ASKS_SECONDS}
        self._asked_at[workspace] = current_time
        workspace_slots = {
            name: slot for name, slot in self._slots.items() if slot.workspace == workspace and slot.users
        }
        if len(self._asked_at) == 1 or not workspace_slots:
            return
        has_its_chats = sum(slot.users for slot in workspace_slots.values()) >= MAX_CHATS // SHARE
        if has_its_chats or (model not in workspace_slots and len(workspace_slots) >= MAX_LOADED // SHARE):
            raise Refused(503, BUSY, "server_busy")

    def _make_room(self, size: int) -> None:
        """Evict idle models. Raises Refused if too many are busy."""
        while len(self._slots) >= MAX_LOADED or size + sum(slot.size for slot in self._slots.values()) > MAX_BYTES:
            idle = next((name for name, slot in self._slots.items() if not slot.users), None)
            if idle is None:
                raise Refused(503, BUSY, "server_busy")
            del self._slots[idle]

    async def _chats(self, slot: ModelSlot, model: str) -> Chats:
        """The model's engine, loaded if necessary. Raises Refused."""
        if slot.chats is not None:
            return slot.chats
        if slot.loading is None:
            slot.loading = asyncio.create_task(self._load(slot, model))
        try:
            return await asyncio.shield(slot.loading)
        except Exception as problem:  # the files of an imported model may hold anything
            message = f"The model can't be loaded: {problem}"[:MAX_MESSAGE_LENGTH]
            raise Refused(400, message, "model_not_loadable") from None

    async def _load(self, slot: ModelSlot, model: str) -> Chats:
        with self._used(slot, model):
            try:
                slot.chats = await asyncio.to_thread(load, self._folder(model), model, self.stop)
            finally:
                slot.loading = None
            return slot.chats

    def _folder(self, model: str) -> Path:
        """The folder with the training run's model. Raises Refused."""
        try:
            folder = self._runs / str(UUID(model)) / "model"
        except ValueError:
            folder = None
        if folder is None or not (folder / "config.json").is_file():
            raise Refused(404, "There is no such model here.", "model_not_found")
        return folder

    def _is_authorized(self, request: Request) -> bool:
        header = request.headers.get("authorization", "")
        return hmac.compare_digest(header.encode(), f"Bearer {self._key}".encode())


def _size(folder: Path) -> int:
    """Bytes of its weights. Raises Refused."""
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    if size > LARGEST_BYTES:
        raise Refused(
            400,
            f"The model has {size / 1024**3:.1f} GiB of weights; this server takes {LARGEST_BYTES / 1024**3:.0f} GiB. "
            "Publish it on a vLLM server.",
            "model_too_large",
        )
    return size


def load(folder: Path, name: str, stop: StopRequest) -> Chats:
    """Raises ConfigFailure, OSError, ValueError, and whatever transformers raises for damaged files."""
    from trainer.models.completeness import refuse_incomplete  # imports torch, so only on demand
    from trainer.rollouts.chats import MAX_TOKENS, Chats
    from trainer.rollouts.local import load_engine
    from trainer.rollouts.prefill import most_tokens

    config = LocalPolicy(model=ModelConfig(path=str(folder)), name=name)
    with LOADING:  # not in the event loop: the client may disconnect before the model is loaded
        refuse_incomplete(folder)
        engine = load_engine(config, folder, stop)
    engine.template_seconds = TEMPLATE_SECONDS
    engine.prefill_bytes = PREFILL_BYTES
    a_token = bytes_a_token(engine.model.config.get_text_config(), engine.model.dtype.itemsize)
    engine.token_limit = min(CACHE_BYTES // a_token, most_tokens(engine.model, PREFILL_BYTES), MAX_TOKENS)
    return Chats(engine, seed=secrets.token_hex(8))


def bytes_a_token(config: Any, width: int) -> int:
    """KV cache bytes per token: a key and a value per head and layer. width: bytes per number."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return max(1, 2 * int(config.num_hidden_layers) * int(heads) * int(size) * width)


def parse_request(body: dict[str, Any]) -> ChatRequest:
    """Parse a request. Raises Refused, which says what was expected."""
    model, messages = body.get("model"), body.get("messages")
    if not isinstance(model, str) or not isinstance(messages, list) or not messages:
        raise Refused(400, "Expected `model`, a string, and `messages`, a list.", "invalid_request")
    for name, neutral in NEUTRAL.items():
        if (value := body.get(name)) is not None and value not in neutral:
            raise Refused(
                400, f"{name}: this server doesn't have it. Leave it out, or publish the policy on vLLM.", "unsupported"
            )
    seed = body.get("seed")
    if seed is not None and type(seed) is not int:
        raise Refused(400, f"seed is {str(seed)[:40]!r}; expected a whole number.", "invalid_request")
    limit = "max_completion_tokens" if body.get("max_completion_tokens") else "max_tokens"
    settings = {"temperature": body.get("temperature"), "top_p": body.get("top_p"), "max_new_tokens": body.get(limit)}
    try:
        sampling = Sampling(**{name: value for name, value in settings.items() if value is not None})
    except ValidationError as problem:
        [first, *_] = problem.errors()
        setting = limit if first["loc"][0] == "max_new_tokens" else first["loc"][0]
        raise Refused(400, f"{setting}: {first['msg']}.", "invalid_request") from None
    return ChatRequest(model, sampling, seed, is_streamed=bool(body.get("stream")))


async def _body(request: Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise Refused(400, "Expected a JSON object.", "invalid_request")
    return body


def _refusal(refused: Refused) -> Response:
    return error_response(refused.status, str(refused), refused.code)


class _Server(uvicorn.Server):
    """Stops sampling before it waits for the last replies. Exits if its event loop is blocked."""

    def __init__(self, config: uvicorn.Config, stop: StopRequest) -> None:
        super().__init__(config)
        self._stop = stop

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # every second
            # Without a handler, SIGALRM ends the process even if another thread holds the GIL.
            signal.alarm(SILENT_SECONDS)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: Any = None) -> None:
        self._stop.requested = True
        await super().shutdown(sockets)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the folder of training runs, RUNS_DIR")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--fd", type=int, help="a listening socket to take in place of host and port")
    options = parser.parse_args(arguments)
    key = os.environ.get(KEY, "")
    if not key:
        parser.error(f"Set {KEY} to the key that the gateway has, too.")
    models = LocalModels(options.runs, key=key)
    config = uvicorn.Config(
        models.application(),
        host=options.host,
        port=options.port,
        fd=options.fd,
        lifespan="off",
        access_log=False,
        ws="none",
        timeout_graceful_shutdown=3,
    )
    _Server(config, models.stop).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
