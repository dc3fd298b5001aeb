"""Step-by-step solutions with labels for each step by people or models: PRM800K, Math-Shepherd, ProcessBench, and similar sets.

Each step is a turn of the policy. Step labels stay with their step (`rating`, `label`), and labels of the whole solution (the index of the
first wrong step) with the trajectory; neither counts until a researcher maps its meaning.
"""

from __future__ import annotations

from collections.abc import Iterator

from apps.ingest.formats import Format
from apps.ingest.normalization.chat import Chat, chat_trajectory
from apps.ingest.normalization.columns import PROMPTS, listed, nonempty_text
from apps.ingest.normalization.fields import mapping, optional_list, text
from apps.ingest.records import BadRow, Json, Message, TrajectoryRecord
from contract import jsontext

SHAPE = "a problem (`problem`, `prompt`, …) beside `steps` as texts; PRM800K's `question` and `label`; Math-Shepherd's `input` and `label`"
MARK = "ки"
"""Math-Shepherd's marker after each step; in `label`, a one-character label replaces it."""
FIRST_STEP = "Step 1:"


def _accepts(row: Json) -> bool:
    return type(row) is dict and (_is_prm800k(row) or _is_math_shepherd(row) or bool(_question_of(row) and _steps(row)))


def _is_prm800k(row: dict[str, Json]) -> bool:
    return "problem" in mapping(row.get("question")) and type(mapping(row.get("label")).get("steps")) is list


def _is_math_shepherd(row: dict[str, Json]) -> bool:
    return type(row.get("label")) is str and MARK in text(row.get("input"))


def _question_of(row: dict[str, Json]) -> str:
    return next((name for name in PROMPTS if nonempty_text(row.get(name))), "")


def _steps(row: dict[str, Json]) -> list[str]:
    steps = listed(row.get("steps")) or []
    return steps if all(type(step) is str for step in steps) else []


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", f"{SHAPE}.")
    if _is_prm800k(row):
        yield _of_prm800k(row)
    elif _is_math_shepherd(row):
        yield _of_math_shepherd(row)
    elif (question_key := _question_of(row)) and (steps := _steps(row)):
        lists = {key: value for key, value in row.items() if type(value) is list and key not in ("steps", "tags")}
        parallel = {key: values for key, values in lists.items() if len(values) == len(steps)}
        noted = [
            {key.removesuffix("s"): values[position] for key, values in parallel.items()}
            for position in range(len(steps))
        ]
        turns = [{**details, **_turn(step)} for details, step in zip(noted, steps, strict=True)]
        yield _trajectory(row, row[question_key], turns, taken=(question_key, "steps", *parallel))
    else:
        raise BadRow("There is no problem, or it has no steps.", f"{SHAPE}.")


def _trajectory(
    row: dict[str, Json], problem: str, turns: list[Message], *, taken: tuple[str, ...]
) -> TrajectoryRecord:
    if not turns:
        raise BadRow("The problem has no steps.", f"{SHAPE}.")
    return chat_trajectory(Chat(row, [{"role": "user", "content": problem}, *turns], taken))


def _turn(content: Json) -> Message:
    return {"role": "assistant", "content": text(content)}


def _of_prm800k(row: dict[str, Json]) -> TrajectoryRecord:
    """The path that was taken: each step's chosen completion, or else the first; the others are kept with the step."""
    question, label = row["question"], row["label"]
    turns: list[Message] = []
    replaced: list[Json] = []
    for step in map(mapping, label["steps"]):
        completions = [mapping(completion) for completion in optional_list(step, "completions")]
        chosen, by_hand = step.get("chosen_completion"), mapping(step.get("human_completion"))
        position = chosen if type(chosen) is int and chosen < len(completions) else 0
        alternatives = completions[:position] + completions[position + 1 :]
        if by_hand and chosen is None:  # a person wrote this continuation, not the policy
            turns.append({**_turn(by_hand.get("text")), "weight": 0})
            replaced += completions
        elif completions:
            noted = {key: value for key, value in completions[position].items() if key != "text"}
            turns.append({**noted, **_turn(completions[position].get("text")), "others": alternatives or None})
    details = {key: value for key, value in label.items() if key != "steps"}
    extra = {key: value for key, value in question.items() if key != "problem"}
    if replaced:
        extra["replaced"] = replaced
    record = _trajectory({**row, **details, **extra}, text(question["problem"]), turns, taken=("question", "label"))
    if (answer := question.get("ground_truth_answer")) is not None:
        record.task.success_check = {"answer": answer}
    return record


def _of_math_shepherd(row: dict[str, Json]) -> TrajectoryRecord:
    """Both texts are the same except that `label` has labels in place of the markers."""
    pieces, labels = row["input"].split(MARK), row["label"]
    problem, step, first = pieces[0].rpartition(FIRST_STEP)
    if not problem.strip():
        raise BadRow(
            f"There is no problem before “{FIRST_STEP}”.", "`input` is a problem, and its solution step by step."
        )
    turns: list[Message] = []
    position = 0
    for part, content in zip(pieces[:-1], [step + first, *pieces[1:-1]], strict=True):
        position += len(part)
        turns.append({**_turn(content.strip()), "label": labels[position : position + 1]})
        position += 1
    if labels[position:].strip() != pieces[-1].strip():
        raise BadRow(
            "`label` is not `input` with a label in the place of each mark.", f"A character for each “{MARK}”."
        )
    return _trajectory(row, problem.strip(), turns, taken=("input", "label"))


FORMAT = Format(
    name="labeled-steps",
    title="Solutions with labeled steps",
    shape=SHAPE,
    keys=("question.problem label.steps", "input label", *(f"{name} steps" for name in PROMPTS)),
    accepts=_accepts,
    read=_read,
    general=True,
)
