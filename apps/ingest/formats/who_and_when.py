"""Who&When: failed trajectories of agent teams, where a person marked the decisive mistake (Zhang et al., 2025, arXiv 2505.00212).

All agents of a team are one policy, each message with its speaker's name: human messages and terminal output are context, everything else is
a step. The mistake is kept with its step (for terminal output, the step that ran the command) and, as a step index, with the trajectory.
"""

from __future__ import annotations

from collections.abc import Iterator

from apps.ingest.formats import Format
from apps.ingest.normalization.conversation import Conversation
from apps.ingest.normalization.fields import count, flag, mapping, number, required_list, text
from apps.ingest.records import BadRow, Json, Outcome, TaskRecord, TrajectoryRecord
from contract import jsontext

EXPECTED = "An object with `history`, `question` and `mistake_step`."
TERMINALS = ("computer_terminal", "computerterminal")


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", EXPECTED)
    mistaken = count(number(row.get("mistake_step")))
    conversation = Conversation()
    first_error: int | None = None
    for index, entry in enumerate(required_list(row, "history")):
        step = conversation.add(_message(mapping(entry), is_first=index == 0))
        if index == mistaken and conversation.steps:
            first_error = len(conversation.steps) - 1
            conversation.steps[-1].info["mistake"] = text(row.get("mistake_reason"))
        speaker = mapping(entry).get("role")
        if step and speaker and speaker not in ("user", "assistant", entry.get("name")):
            step.info["speaker"] = speaker
    solved = flag(row.get("is_corrected") if row.get("is_correct") is None else row.get("is_correct"))
    yield TrajectoryRecord(
        task=TaskRecord(
            key=text(row.get("question_ID")) or text(row.get("question")),
            instruction=text(row.get("question")),
            environment="who-and-when",
            success_check={"answer": row["ground_truth"]} if row.get("ground_truth") is not None else {},
            difficulty=text(row.get("level")),
        ),
        steps=conversation.steps,
        closing=conversation.waiting,
        outcome=Outcome(
            success=solved,
        ),
        info={
            "first_error": first_error,
            **{key: row[key] for key in ("mistake_agent", "mistake_reason", "mistake_type") if row.get(key)},
        },
    )


def _message(entry: dict[str, Json], *, is_first: bool) -> Json:
    """A history entry as a chat message."""
    role, content = text(entry.get("role")), entry.get("content")
    speaker = text(entry.get("name")) or role.split(" (")[0]
    if is_first or role == "human":
        return {"role": "user", "content": content}
    if speaker.lower() in TERMINALS:
        return {"role": "tool", "name": speaker, "content": content}
    return {"role": "assistant", "name": speaker, "content": content}


FORMAT = Format(
    name="who-and-when",
    title="Who&When failed trajectories",
    shape="an object with `history`, `question`, `mistake_agent` and `mistake_step`",
    keys=("history.content mistake_step mistake_agent",),
    read=_read,
)
