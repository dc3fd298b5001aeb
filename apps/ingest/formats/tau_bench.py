"""tau-bench results: a customer-service agent, a simulated user, and a reward for the state of the shop's database at the end.

The simulated user's instruction is not part of the agent's context; it is kept with the task and labeled as such. A run that
crashed has a row too, with an error in `info` and no messages.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from apps.ingest.formats import Format
from apps.ingest.normalization.columns import listed
from apps.ingest.normalization.conversation import Conversation, to_steps
from apps.ingest.normalization.fields import first_of, mapping, reward_of, succeeded_by, text
from apps.ingest.records import BadRow, Json, Message, Outcome, TaskRecord, TrajectoryRecord, text_of
from contract import jsontext
from contract.trajectory import FOR_SIMULATED_USER

STOP = "###STOP###"
TRANSFER = "transfer_to_human_agents"

_DOMAIN_PROMPT = re.compile(r"\s*#\s*(airline|retail|telecom)\b", re.IGNORECASE)
_DOMAIN_NAME = re.compile(r"(?:^|[^a-z])(airline|retail|telecom)(?:[^a-z]|$)", re.IGNORECASE)
_RUN_NAME = re.compile(r"^(?:tool-calling|few-shot|react|act)-(?P<model>.+)-\d+(?:\.\d+)?_range_")
_PUBLISHED_NAME = re.compile(r"^(?P<model>.+?)(?:-new)?-(?:airline|retail|telecom)$")


def _accepts(row: Json) -> bool:
    entry = mapping(row).get("traj")
    messages = listed(entry)
    return entry is None or (messages is not None and all("role" in mapping(message) for message in messages[:1]))


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(
            f"The record is {jsontext.describe(row)}.", "An object with `task_id`, `reward`, `info` and `traj`."
        )
    messages = listed(row.get("traj"))
    if row.get("traj") is not None and messages is None:
        raise BadRow(f"`traj` is {jsontext.describe(row['traj'])}.", "`traj` is a list of chat messages.")
    if "traj" not in row:
        raise BadRow("`traj` is missing.", "`traj` is a list of chat messages.")
    conversation = to_steps(messages or [])
    info = mapping(row.get("info"))
    task = mapping(info.get("task"))
    reward = reward_of(
        first_of(row, "reward") if row.get("reward") is not None else mapping(info.get("reward_info")).get("reward")
    )
    trial = row.get("trial")
    yield TrajectoryRecord(
        task=_task(row, task, _domain(messages or [], filename)),
        steps=conversation.steps,
        closing=conversation.waiting,
        policy=_policy(filename),
        id="/".join(text(part) for part in (row.get("task_id"), trial) if part is not None),
        outcome=Outcome(
            reward=reward,
            success=succeeded_by(reward),
            termination=_termination(conversation, info),
        ),
        info={
            **{key: value for key, value in info.items() if key != "task"},
            **{key: value for key, value in row.items() if key not in ("task_id", "reward", "info", "traj", "trial")},
            **({"trial": trial} if trial is not None else {}),
        },
    )


def _task(row: dict[str, Json], task: dict[str, Json], domain: str) -> TaskRecord:
    instruction = text(task.get("instruction"))
    number_of_task = row.get("task_id")
    key = "" if number_of_task is None else text(number_of_task)
    if not domain or not key:
        # Task 0 of one domain is not task 0 of another; the user's instruction distinguishes them.
        key += ("-" if key else "") + hashlib.sha256(jsontext.canonical(task)).hexdigest()[:12]
    return TaskRecord(
        key=key,
        instruction=FOR_SIMULATED_USER + instruction if instruction else "",
        environment=f"tau-bench/{domain}" if domain else "tau-bench",
        initial_state={"user_id": task["user_id"]} if task.get("user_id") else {},
        success_check={name: task[name] for name in ("actions", "outputs") if name in task},
    )


def _domain(messages: list[Json], filename: str) -> str:
    system = mapping(messages[0]) if messages else {}
    match = _DOMAIN_PROMPT.match(text_of(system.get("content"), first=200)) or _DOMAIN_NAME.search(filename)
    return match[1].lower() if match else ""


def _policy(filename: str) -> str | None:
    """The model from the file's name: tau-bench records it nowhere else."""
    stem = re.sub(r"\.jsonl?(\.gz|\.zst)?$", "", filename)
    match = _RUN_NAME.match(stem) or _PUBLISHED_NAME.match(stem)
    return match["model"] if match else None


def _termination(conversation: Conversation, info: dict[str, Json]) -> str:
    if info.get("error"):
        return "error"
    last: Message | None = conversation.waiting[-1] if conversation.waiting else None
    if last and last["role"] == "user" and STOP in text_of(last.get("content")):
        return "user_stop"
    if last and last["role"] == "tool" and _called(conversation, TRANSFER):
        return TRANSFER
    return "unfinished" if conversation.steps else "not_started"


def _called(conversation: Conversation, tool: str) -> bool:
    calls = conversation.steps[-1].message.get("tool_calls") or [] if conversation.steps else []
    return any(call["function"]["name"] == tool for call in calls)


FORMAT = Format(
    name="tau-bench",
    title="tau-bench results",
    shape="`traj`, a list of chat messages, with `task_id`, `trial`, `reward` and `info`",
    keys=("task_id traj reward", "task_id traj trial"),
    accepts=_accepts,
    read=_read,
)
