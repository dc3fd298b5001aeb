"""Converts a session's calls to trajectories: one for each path through their graph from root to leaf."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any
from uuid import UUID

import numpy as np
from django.db.models import TextField
from django.db.models.functions import Cast, Coalesce, Length

from apps.gateway.call_graph import Ids
from apps.gateway.dialects.steps import context_of, end_of, reply_of, tools_in
from apps.gateway.models import Call, Join, Session, SessionEvent
from contract import jsontext
from contract.episodes import CallTokens, Chat
from contract.messages import text_of
from contract.trajectory import Outcome, Step, Task, Trajectory
from contract.values import mapping

ENDED = {Session.State.FINISHED: "done", Session.State.ABANDONED: "abandoned"}


MAX_STEPS = 20_000
"""Maximum total length of a session's paths besides the longest: a chat that branches a thousand times at its thousandth step has a million steps."""
MAX_PATHS = 1000
"""Maximum number of paths. All are stored within the request that ends the session: a few milliseconds each, and more for long ones."""
MAX_CHARACTERS = 64 << 20
"""Maximum size of the longest path, and of all others together, which each repeat what they share."""
MAX_IDS = 8 << 20
"""Maximum number of token ids and log-probabilities in one path. A prompt that starts anew stores all of its ids, so a path could have gigabytes."""
BYTES_OF_ID = 4
CHARACTERS_OF_ID = 8
"""Approximate length of an id or a log-probability as text."""
IDS = ("prompt_ids", "sampled_ids", "logprobs")
TOO_MANY_IDS = "Its session has more token ids than fit into one trajectory."


def outlines_of(session: Session) -> list[Call]:
    """The session's calls without their content, which may be hundreds of megabytes; annotated with their `size` in characters and their number of `ids`."""
    sizes = [Coalesce(Length(Cast(name, TextField())), 0) for name in ("messages", "tools", "reply")]
    ids = [Coalesce(Length(name), 0) / BYTES_OF_ID for name in IDS]
    calls = Call.objects.filter(session=session).order_by("id").only("status", "parent", "body_digest", "is_retry")
    return list(calls.annotate(size=sum(sizes[1:], start=sizes[0]), ids=sum(ids[1:], start=ids[0])))


def with_content(paths: Sequence[Sequence[Call]]) -> list[list[Call]]:
    """The paths from `outlines_of` with everything that a trajectory needs; calls beyond MAX_IDS are without ids."""
    needed = {call.pk for path in paths for call in path}
    fit = {call.pk for path in paths for call in _within(path, MAX_IDS)}
    calls = Call.objects.defer("request").in_bulk(fit)
    for call in Call.objects.defer("request", *IDS).in_bulk(needed - fit).values():
        call.untrainable = TOO_MANY_IDS  # not saved: the stored call keeps its ids
        calls[call.pk] = call
    return [
        [calls[call.pk] for call in path if call.pk in calls] for path in paths
    ]  # some may have been deleted meanwhile


def with_tokens(paths: Sequence[Sequence[Call]]) -> list[Chat]:
    """The tokens of each path."""
    needed = {call.pk for path in paths for call in path}
    calls = Call.objects.only("join", "untrainable", "prompt_ids", "sampled_ids").in_bulk(needed)
    tokens = {pk: CallTokens.of_step(str(pk), _tokens(call)) for pk, call in calls.items()}
    return [[tokens[call.pk] for call in path if call.pk in tokens] for path in paths]


def _within(path: Sequence[Call], max_ids: int) -> list[Call]:
    """The calls at the beginning of a path with at most `max_ids` ids in total."""
    sums = accumulate(_ids_of(call) for call in path)
    return [call for call, ids in zip(path, sums, strict=True) if ids <= max_ids]


def _ids_of(call: Call) -> int:
    return getattr(call, "ids", 0)


def size_of(path: Sequence[Call]) -> int:
    """The number of characters in a path from `outlines_of`, without its ids; 0 if they weren't counted."""
    return sum(getattr(call, "size", 0) for call in path)


def whole_size_of(path: Sequence[Call]) -> int:
    """The number of characters in a path from `outlines_of`, with its ids; 0 if they weren't counted."""
    return size_of(path) + CHARACTERS_OF_ID * sum(map(_ids_of, path))


def paths_of(calls: Collection[Call]) -> list[list[Call]]:
    """The answered calls of each path, from root to leaf; the longest path first, then others up to MAX_STEPS and MAX_CHARACTERS in total, and
    MAX_PATHS paths in all.
    """
    answered = _answered(calls)
    lengths = _lengths(answered)
    paths: list[list[Call]] = []
    remaining_steps, characters = MAX_STEPS, MAX_CHARACTERS
    for leaf in sorted(leaves_of(calls), key=lambda leaf: (-lengths[leaf.pk], leaf.pk)):
        path = _back_from(leaf, answered)
        if paths:
            remaining_steps, characters = remaining_steps - len(path), characters - whole_size_of(path)
            if remaining_steps < 0 or characters < 0 or len(paths) == MAX_PATHS:
                break
        paths.append(path)
    return paths


def path_to(leaf: UUID, calls: Iterable[Call]) -> list[Call]:
    """The path from its root to a call that isn't its last one any more."""
    answered = _answered(calls)
    return _back_from(answered[leaf], answered)


def leaves_of(calls: Collection[Call]) -> list[Call]:
    """The last call of each path. calls: by id.

    A call whose reply was lost, and which has no continuation, isn't a leaf: the agent continued from the retry.
    """
    answered = _answered(calls)
    continued = {call.parent_id for call in answered.values()}
    requests: dict[bytes, list[Call]] = {}
    for call in answered.values():
        requests.setdefault(bytes(call.body_digest), []).append(call)
    failed = {bytes(call.body_digest): call.pk for call in calls if call.pk not in answered and not call.is_retry}
    leaves = []
    for call in answered.values():
        if call.pk in continued:
            continue
        request = bytes(call.body_digest)
        same, last_failed = requests[request], failed.get(request, call.pk)
        was_lost = call != same[-1] and same[-1].is_retry and last_failed <= call.pk  # else, what failed was retried
        if was_lost or any(other.pk in continued for other in same):
            continue
        leaves.append(call)
    return leaves


def _answered(calls: Iterable[Call]) -> dict[UUID, Call]:
    return {call.pk: call for call in calls if call.status == Call.Status.OK}


def _lengths(answered: Mapping[UUID, Call]) -> dict[UUID, int]:
    """The length of the path to each call, itself included."""
    lengths: dict[UUID, int] = {}
    for call in answered.values():
        path = _back_from(call, answered, known=lengths)
        before = lengths.get(path[0].pk, 1) - 1
        lengths |= {call.pk: before + number for number, call in enumerate(path, start=1)}
    return lengths


def _back_from(call: Call, answered: Mapping[UUID, Call], *, known: Collection[UUID] = ()) -> list[Call]:
    """The path to a call, from its root or from a call in `known`. In an imported session, calls may form a circle: it's cut where it closes."""
    path = {call.pk: call}
    while call.pk not in known and (parent := call.parent_id) is not None and parent in answered and parent not in path:
        call = answered[parent]
        path[parent] = call
    return list(path.values())[::-1]


def trajectory_of(
    session: Session,
    path: Sequence[Call],
    events: Sequence[SessionEvent] = (),
    *,
    is_main: bool = True,
    part_of: Task | None = None,
) -> Trajectory:
    """The trajectory of a path. Only the main one has the session's outcome. Other paths are branches of it, or a sub-agent's, whose task is
    its first prompt: its share of the work isn't an attempt at the session's task.

    part_of: for a sub-agent's path, the session's task.
    """
    rewards: dict[UUID, float] = {}
    for event in events:
        if event.type == SessionEvent.Type.REWARD and event.call_id and isinstance(event.value, int | float):
            rewards[event.call_id] = rewards.get(event.call_id, 0.0) + event.value
    steps = [_step(call, rewards.get(call.pk)) for call in path]
    outcome = Outcome(termination=ENDED.get(Session.State(session.state), ""))
    if is_main:
        outcome.reward, outcome.success = session.reward, session.success
    info: dict[str, Any] = {"session": str(session.pk), "calls": [str(call.pk) for call in path]}
    for name in ("group", "attempt", "agent", "metadata"):
        if value := getattr(session, name):
            info[name] = value
    if is_main and session.rewards:
        info["rewards"] = session.rewards
    if seams := [index for index, call in enumerate(path) if call.join == Join.MESSAGES]:
        info["seams"] = seams
    return Trajectory(
        task=_part_asked(session, path, part_of) if part_of else task_of(session, path),
        steps=steps,
        outcome=outcome,
        id=str(session.pk) if is_main else f"{session.pk}/{path[-1].pk}",
        policy=session.policy_name,
        tools=tools_of(path),
        tags=[] if is_main else ["part of a session"],
        info=info,
    )


def task_of(session: Session, path: Sequence[Call]) -> Task:
    """The session's task; if it names none, its first user message is the task, shared by all sessions with the same one."""
    names_one = isinstance(session.task, dict) and session.task.get("key")
    return Task.from_json(session.task) if names_one else task_asked(session, path)


def task_asked(session: Session, path: Sequence[Call]) -> Task:
    """The task given by the first user message of a path."""
    environment = str(mapping(session.task).get("environment") or "")
    instruction = first_asked(path[0].messages if path else [])
    return Task(
        key=key_of(instruction) if instruction else str(session.pk), instruction=instruction, environment=environment
    )


def _part_asked(session: Session, path: Sequence[Call], whole: Task) -> Task:
    """The task of a sub-agent. Other tasks' sub-agents don't share it, since its chats repeat parts of its session's task: it's held out, and split
    into train and test, with that.
    """
    part = task_asked(session, path)
    key = key_of(f"{whole.key}\0{part.instruction}") if part.instruction else part.key
    return replace(part, key=key, held_out=whole.held_out)


def first_asked(messages: Sequence[Any]) -> str:
    """The text of the first user message."""
    instructions = (message.get("content") for message in messages if message.get("role") == "user")
    return text_of(next(instructions, ""))


def key_of(instruction: str) -> str:
    """Key of a task without a name."""
    return hashlib.sha256(instruction.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def tools_of(path: Sequence[Call]) -> list[Any]:
    """Every tool offered on the path, without duplicates."""
    offered: dict[bytes, Any] = {}
    for call in path:
        for tool in tools_in(call.dialect, call.tools):
            if isinstance(tool, dict):
                offered.setdefault(jsontext.canonical(tool), tool)
    return list(offered.values())


def _step(call: Call, reward: float | None) -> Step:
    info = {"finish_reason": end_of(call.dialect, call.reply), **_tokens(call)}
    if "token_ids" in info:
        info["logprobs"] = [round(float(logprob), 5) for logprob in np.frombuffer(call.logprobs or b"", "<f4")]
    between, message = reply_of(call.dialect, call.reply)
    return Step(
        context=[*context_of(call.dialect, call.messages), *between],
        message=message,
        reward=reward,
        seconds=round(call.seconds, 3),
        prompt_tokens=call.prompt_tokens,
        completion_tokens=call.completion_tokens,
        info=info,
    )


def _tokens(call: Call) -> dict[str, Any]:
    info: dict[str, Any] = {}
    if call.join == Join.MESSAGES:
        info["seam"] = "Its prompt doesn't begin with the tokens of the step before."
    if call.untrainable:
        return {**info, "untrainable": call.untrainable}
    return {**info, "context_ids": ids_from(call.prompt_ids).tolist(), "token_ids": ids_from(call.sampled_ids).tolist()}


def ids_from(column: bytes | memoryview | None) -> Ids:
    """Decodes token ids as stored in a call."""
    return np.frombuffer(bytes(column or b""), "<i4")
