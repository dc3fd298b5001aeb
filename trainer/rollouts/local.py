"""A model in this process, which answers concurrent chats in batches."""

import asyncio
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from contract.configs import LocalPolicy, Sampling
from contract.messages import Message, ToolSchema
from contract.trajectory import Task
from trainer.failures import ConfigFailure
from trainer.interruption import StopRequest
from trainer.models.loader import compute_dtype, load_policy, load_tokenizer
from trainer.rendering.chat import end_of_turn, render_continuation, render_prompt, turn_ends
from trainer.rendering.response_parser import parse_turn
from trainer.rendering.time_limit import TookTooLong, time_limit
from trainer.rollouts.policy import PolicyError, Turn
from trainer.rollouts.sampling import Memory, Request, Sampled, sample


def load_engine(config: LocalPolicy, folder: Path, stop: StopRequest) -> "LocalEngine":
    """Load the configured policy, onto the accelerator if there is one. Raises ConfigFailure."""
    tokenizer = load_tokenizer(config.model, folder)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = load_policy(config.model, folder, compute_dtype(config.precision))
    return LocalEngine(model.to(device).eval(), tokenizer, config.sampling, stop, name=config.name or config.model.path)


class LocalEngine:
    """One model, shared by all episodes."""

    away = ""

    def __init__(
        self, model: Any, tokenizer: PreTrainedTokenizerBase, sampling: Sampling, stop: StopRequest, *, name: str
    ) -> None:
        self.name = name
        self.sampling = sampling
        self.tokenizer = tokenizer
        self.model = model
        self.context: int = getattr(model.config.get_text_config(), "max_position_embeddings", 1 << 30)
        ends = model.generation_config.eos_token_id
        self.ends = turn_ends(tokenizer) | set(ends if isinstance(ends, list) else [ends]) - {None}
        """All tokens that end a turn; a model may use several."""
        self.token_limit: int | None = None
        """Maximum tokens of a batch, including padding and tokens still to be sampled; None: as many as fit on the accelerator."""
        self.prefill_bytes: int | None = None
        """Memory for the activations of a batch's prompts, which are read in pieces if they need more; None: they're read at once."""
        self.template_seconds: float | None = None
        """Time limit of the chat template per turn, which then runs in a thread; None: it runs on the event loop, without a limit."""
        self._templates = ThreadPoolExecutor(1, thread_name_prefix="chat-template")
        self._rendering: set[asyncio.Future[list[int]]] = set()
        self._stop = stop
        self._at_once: int | None = None
        """Maximum chats in a batch; None as long as every batch has fit on the accelerator."""
        self._waiting: list[tuple[Request, asyncio.Future[Sampled]]] = []
        self._server: asyncio.Task[None] | None = None
        self.failure: Exception | None = None
        """The exception that made a batch fail, regardless of its chats."""

    async def ready(self) -> None:
        pass

    def begin(self, task: Task, seed: int) -> "LocalAgent":
        return LocalAgent(self, random.Random(seed))

    async def close(self) -> None:
        if self._server is not None:
            await asyncio.gather(self._server, return_exceptions=True)

    async def rendered(self, render: Callable[[], list[int]]) -> list[int]:
        """Run `render` within the time limit. Raises PolicyError if it takes longer."""
        if (seconds := self.template_seconds) is None:
            return render()

        def bounded() -> list[int]:
            with time_limit(seconds):
                return render()

        rendering = asyncio.get_running_loop().run_in_executor(self._templates, bounded)
        self._rendering.add(rendering)
        rendering.add_done_callback(self._rendering.discard)
        try:
            return await rendering
        except TookTooLong:
            raise PolicyError(f"the model's chat template took longer than {seconds:g} s") from None

    async def answer(self, request: Request) -> Sampled:
        """Wait for a place in the next batch, and for its result."""
        future: asyncio.Future[Sampled] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._server is None or self._server.done():
            self._server = asyncio.create_task(self._serve())
        return await future

    async def _serve(self) -> None:
        """Answer batches as long as requests are waiting."""
        while self._waiting:
            await self._gather_requests()
            batch = self._next_batch()
            if not batch:
                continue
            try:
                requests, futures = [request for request, _ in batch], [future for _, future in batch]
                results = await asyncio.to_thread(self._sample, requests, partial(_is_awaited, futures))
            except Exception as error:  # such as out of memory: passed on to all who wait for this batch
                self.failure = error
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for index, (_, future) in enumerate(batch):
                if future.done():  # its episode timed out in the meantime
                    continue
                if results is None:
                    future.cancel()
                else:
                    future.set_result(results[index])
            await asyncio.sleep(0)

    def _next_batch(self) -> list[tuple[Request, asyncio.Future[Sampled]]]:
        """The waiting requests with the same sampling settings as the first, as many as fit. Empty if none is awaited any more."""
        batch: list[tuple[Request, asyncio.Future[Sampled]]] = []
        remaining: list[tuple[Request, asyncio.Future[Sampled]]] = []
        longest = 0
        for request, future in self._waiting:
            if future.done():  # no longer awaited
                continue
            wider = max(longest, len(request.ids) + request.limit)
            fits = self.token_limit is None or not batch or wider * (len(batch) + 1) <= self.token_limit
            if (not batch or request.sampling == batch[0][0].sampling) and fits:
                batch.append((request, future))
                longest = wider
            else:
                remaining.append((request, future))
        self._waiting = remaining
        return batch

    async def _gather_requests(self) -> None:
        """Wait a few iterations of the event loop, so that episodes that were answered together form one batch again."""
        previous = -1
        while self._rendering or len(self._waiting) != previous:
            if self._rendering:
                await asyncio.wait(self._rendering)
            previous = len(self._waiting)
            for _ in range(4):
                await asyncio.sleep(0)

    def _sample(self, requests: list[Request], is_awaited: Callable[[], bool] = lambda: True) -> list[Sampled] | None:
        """Sample all requests, in several batches if necessary. When a batch runs out of memory, the batch size is halved for good, and KV caches
        are no longer kept between turns, since those of waiting chats take memory, too.
        """
        results: list[Sampled] = []
        while remaining := requests[len(results) :]:
            if self._at_once is not None:
                remaining = [without_memory(request) for request in remaining]
            batch = remaining[: self._at_once]
            states = [request.rng.getstate() for request in batch]
            try:
                sampled = self._sample_batch(batch, is_awaited)
            except torch.OutOfMemoryError:
                if len(batch) == 1:
                    raise
                self._at_once = len(batch) // 2
                for request, state in zip(batch, states, strict=True):
                    request.rng.setstate(state)
            else:
                if sampled is None:
                    return None
                results += sampled
        return results if self._at_once is None else [result._replace(memory=None) for result in results]

    def _sample_batch(self, requests: list[Request], is_awaited: Callable[[], bool]) -> list[Sampled] | None:
        return sample(
            self.model,
            requests,
            requests[0].sampling or self.sampling,
            end_ids=self.ends,
            pad_id=self.tokenizer.pad_token_id,
            stopped=lambda: self._stop.requested or not is_awaited(),
            prefill_bytes=self.prefill_bytes,
        )


def _is_awaited(futures: list[asyncio.Future[Sampled]]) -> bool:
    """Whether any of the futures is still awaited."""
    return not all(future.done() for future in futures)


def without_memory(request: Request) -> Request:
    """The request without its KV cache, which is freed even if others still hold a reference to it."""
    if request.memory is not None:
        request.memory.forget()
    return request._replace(memory=None)


class LocalAgent:
    """One episode of a local model, with its own random numbers.

    Its earlier turns are kept as the exact tokens that were sampled: another tokenization of the same text would be a prompt that doesn't
    occur in training, which uses these tokens.
    """

    def __init__(self, engine: LocalEngine, rng: random.Random) -> None:
        self._engine = engine
        self._rng = rng
        self._turns = 0
        self._ids: list[int] = []
        self._memory: Memory | None = None

    @property
    def ids(self) -> list[int]:
        """The tokens of the chat up to the end of its last turn."""
        return self._ids

    @property
    def remembered(self) -> int:
        """Number of tokens in the KV cache."""
        return self._memory.length if self._memory else 0

    def forget(self) -> None:
        """Drop the KV cache; the next turn processes the whole chat again."""
        self._memory = None

    def branch(self, rng: random.Random) -> "LocalAgent":
        """Another agent that continues from here. It takes over the KV cache, which can be used only once."""
        branch = LocalAgent(self._engine, rng)
        branch._turns, branch._ids = self._turns, self._ids
        branch._memory, self._memory = self._memory, None
        return branch

    async def act(
        self, chat: list[Message], tools: list[ToolSchema], *, max_tokens: int, sampling: Sampling | None = None
    ) -> Turn:
        """The next assistant message. sampling: overrides the engine's. Raises PolicyError, ConfigFailure."""
        engine = self._engine
        longest = (sampling or engine.sampling).max_new_tokens
        if tools and engine.tokenizer.response_template is None:
            raise ConfigFailure(
                "model: its chat template's format of tool calls is unknown, so none of its calls could be read.",
                advice="Choose another model, set tool_calls to react, or roll out through a server that reads its calls.",
            )
        self._turns += 1
        context = await engine.rendered(partial(self._context, chat, tools))
        prompt = self._ids + context
        limit = min(max_tokens, longest, engine.context - len(prompt))
        if limit <= 0:
            raise PolicyError(f"the chat has {len(prompt)} tokens, the model's context {engine.context}")
        if engine.token_limit is not None and len(prompt) + limit > engine.token_limit:
            limit = engine.token_limit - len(prompt)
            if limit <= 0:
                raise PolicyError(f"the chat has {len(prompt)} tokens; there is memory for {engine.token_limit} here")
        start = time.monotonic()
        sampled = await engine.answer(Request(prompt, limit, self._rng, self._memory, sampling))
        self._ids, self._memory = prompt + sampled.ids, sampled.memory
        parsed = parse_turn(
            engine.tokenizer,
            sampled.ids,
            prompt_ids=prompt,
            tools=tools,
            ends=engine.ends,
            call_ids=f"call_{self._turns}",
        )
        return Turn(
            message=parsed.message,
            error=parsed.error,
            prompt_tokens=len(prompt),
            completion_tokens=len(sampled.ids),
            info={
                "context_ids": context,
                "token_ids": sampled.ids,
                "logprobs": sampled.logprobs,
                "generation_seconds": round(time.monotonic() - start, 4),
            },
        )

    def _context(self, chat: list[Message], tools: list[ToolSchema]) -> list[int]:
        """The tokens between those so far and the start of this turn."""
        tokenizer = self._engine.tokenizer
        if not self._ids:
            return render_prompt(tokenizer, chat, tools)
        continuation = render_continuation(tokenizer, chat, tools)
        last, end = self._ids[-1], end_of_turn(tokenizer)
        if end is None:  # the policy ended its turn by starting the next one, unless it was cut off
            return continuation[1:] if continuation[:1] == [last] else continuation
        return continuation if last == end else [end, *continuation]
