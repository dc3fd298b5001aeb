"""Plays episodes of training runs and rollouts with your own agent: leases them, runs the agent, reports the outcome."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from retrace.errors import RequestRefused, RetraceError
from retrace.models.episodes import Episode, Lease
from retrace.models.sessions import Finish

if TYPE_CHECKING:
    from retrace.client import Client

Result = bool | float | Mapping[str, Any]
"""Success, a reward, or a mapping with any of success, reward, rewards, and metadata."""
Agent = Callable[[Episode], Result | Awaitable[Result]]

SHORTEST_PAUSE, MAX_PAUSE = 0.5, 5.0
"""Seconds between requests while no episode is available."""
RENEWALS = 4
"""Renewals per lease period."""
MAX_PROBLEM_LENGTH = 2000
logger = logging.getLogger("retrace")


def serve_agent(
    client: Client,
    agent: Agent,
    *,
    environment: str | None = None,
    run: str | None = None,
    rollouts: str | None = None,
    parallel: int = 1,
    runner: str | None = None,
    until_idle: float | None = None,
) -> int:
    """See `Client.serve_agent`."""
    if parallel < 1:
        raise ValueError(f"parallel is {parallel}. Expected 1 or more.")
    wanted: Lease = {"runner": runner or f"{socket.gethostname()}:{os.getpid()}"}
    if environment:
        wanted["environment"] = environment
    if run:
        wanted["run"] = run
    if rollouts:
        wanted["rollouts"] = rollouts
    serving = _Serving(client, agent, wanted, until_idle)
    with ThreadPoolExecutor(parallel, thread_name_prefix="retrace-runner") as threads:
        seats = [threads.submit(serving.play_on) for _ in range(parallel)]
        try:
            return sum(seat.result() for seat in seats)
        finally:
            serving.ended.set()


def run(agent: Agent, **options: Any) -> int:
    """`Client.serve_agent` with RETRACE_URL and RETRACE_TOKEN: all that a runner's program needs."""
    from retrace.client import Client  # circular import: it offers serve_agent itself

    with Client() as client:
        return client.serve_agent(agent, **options)


class _Serving:
    """State shared by all threads of a runner."""

    def __init__(self, client: Client, agent: Agent, wanted: Lease, until_idle: float | None) -> None:
        self._client = client
        self._agent = agent
        self._wanted = wanted
        self._until_idle = until_idle
        self._asking = threading.Lock()
        """Held by the thread that requests the next episode: while none is available, one request at a time is enough."""
        self._playing: set[str] = set()
        self.ended = threading.Event()

    def play_on(self) -> int:
        """Play episodes one after another; returns how many."""
        count = 0
        try:
            while (episode := self._next()) is not None:
                try:
                    self._play(episode)
                finally:
                    self._playing.discard(episode.id)
                count += 1
        except BaseException:
            self.ended.set()
            raise
        return count

    def _next(self) -> Episode | None:
        """The next episode, however long that takes; None at the end."""
        pause = SHORTEST_PAUSE
        with self._asking:
            idle_since = time.monotonic()
            while not self.ended.is_set():
                episode = self._leased()
                if episode is not None:
                    self._playing.add(episode.id)
                    return episode
                if self._playing:
                    idle_since = time.monotonic()
                elif self._until_idle is not None and time.monotonic() - idle_since >= self._until_idle:
                    self.ended.set()
                    break
                self.ended.wait(pause)
                pause = min(MAX_PAUSE, 2 * pause)
        return None

    def _leased(self) -> Episode | None:
        try:
            return self._client.episodes.lease(**self._wanted)
        except RequestRefused as refusal:
            if refusal.status is not None and refusal.status < 500 and refusal.status != 429:
                raise  # a retry would be refused, too
            logger.warning("%s", refusal)
        except RetraceError as error:  # a restarting server comes back
            logger.warning("%s", error)
        return None

    def _play(self, episode: Episode) -> None:
        over = threading.Event()
        renewing = threading.Thread(target=self._renew, args=(episode, over), daemon=True)
        renewing.start()
        try:
            outcome = outcome_of(_run(self._agent, episode))
        except (Exception, asyncio.CancelledError) as problem:  # an agent that cancels itself mustn't end the runner
            self._give_up(episode, problem)
            if isinstance(problem, NoOutcome):  # an error in the program, not in the policy's behavior
                raise
            return
        finally:
            over.set()
            renewing.join()
        try:
            self._client.sessions.finish(episode.session, **outcome)
        except RetraceError as problem:
            if problem.status == HTTPStatus.BAD_REQUEST:
                self._give_up(episode, problem)
                raise  # an error in the program, too
            # The lease was lost, or the training step continued without it.
            logger.warning("episode %s no longer counts: %s", episode.id, problem)
        except (TypeError, ValueError) as problem:  # not JSON, such as a reward that isn't finite
            self._give_up(episode, problem)
            raise NoOutcome(f"The agent returned {outcome!r:.200}, which can't be sent: {problem}.") from problem

    def _give_up(self, episode: Episode, problem: BaseException) -> None:
        logger.warning("the agent failed at episode %s", episode.id, exc_info=problem)
        message = f"{type(problem).__name__}: {problem}"[:MAX_PROBLEM_LENGTH]
        with suppress(RetraceError):  # then the lease expires
            self._client.sessions.abandon(episode.session, problem=message)

    def _renew(self, episode: Episode, over: threading.Event) -> None:
        while not over.wait(episode.lease_seconds / RENEWALS):
            with suppress(RetraceError):  # calls renew it as well
                self._client.sessions.renew(episode.session)


class NoOutcome(TypeError):
    """The agent returned nothing that gives the outcome, or something that can't be sent."""


def _run(agent: Agent, episode: Episode) -> Any:
    result = agent(episode)
    if inspect.isawaitable(result):

        async def awaited() -> Any:
            return await result

        return asyncio.run(awaited())
    return result


def outcome_of(result: Any) -> Finish:
    """An agent's return value as the arguments for finishing the session. Raises NoOutcome."""
    if isinstance(result, bool):
        return {"success": result}
    if isinstance(result, int | float):
        return {"reward": float(result)}
    if isinstance(result, Mapping) and result and set(result) <= Finish.__annotations__.keys():
        return Finish(**result)  # type: ignore[typeddict-item]  # its keys have been checked
    known = ", ".join(Finish.__annotations__)
    raise NoOutcome(
        f"The agent returned {result!r:.200}. Expected True or False, a reward, or a mapping with any of {known}."
    )
