"""A record's task, policy, and outcome, under the names that published data sets use for them.

Each is read from the first of its possible columns with a readable value; all other columns stay in `rest`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from apps.ingest.normalization.fields import flag, mapping, reward_of
from apps.ingest.records import Json, StepRecord
from contract import jsontext

INSTANCE = ("instance_id", "instance.instance_id", "ds.instance_id")
"""Identifiers that are the same in all data sets."""
TASK = (
    *("task_id", *INSTANCE, "item_id", "problem_id", "question_id", "prompt_id", "query_id", "task_name"),
    *("task.key", "task.id", "task.task_id", "task.name", "metadata.task_id", "info.task_id"),
)
INSTRUCTION = (
    *("instruction", "goal", "intent", "objective", "problem_statement", "task_description", "question", "query"),
    *("task.instruction", "task.goal", "task.description", "task_info.instruction", "instance.problem_statement"),
)
PROMPTS = ("prompt", "instruction", "input", "question", "query", "problem")
"""The prompt, in rows of a question and its answer."""
ENVIRONMENT = ("environment", "env", "env_name", "env_id", "domain", "benchmark", "data_source", "task.environment")
POLICY = (
    *("policy", "model", "model_name", "model_id", "model_name_or_path", "generator", "policy.name", "model.name"),
    *("response.model", "request.model", "request.body.model", "body.model", "agent_args.llm_name"),
    *("metadata.model", "metadata.llm_config.model", "metadata.llm.model", "llm_config.model"),
    *("agent", "agent.model", "agent.name"),
)
NAME = (
    *("id", "traj_id", "trajectory_id", "uuid", "episode_id", "conversation_id", "session_id", "custom_id", "run_id"),
    "conversation_hash",
)
REWARD = (
    *("reward", "score", "final_reward", "total_reward", "episode_reward", "cumulative_reward", "return"),
    *("outcome.reward", "result.reward", "info.reward", "metadata.reward", "summary_info.cum_reward"),
)
REWARDS = ("rewards", "reward", "step_rewards")
SUCCESS = (
    *("success", "resolved", "is_success", "is_resolved", "is_correct", "is_solved", "successful", "is_successful"),
    *(
        "solved",
        "correct",
        "passed",
        "final_answer_correct",
        "task_success",
        "task_completed",
        "outcome",
        "outcome.success",
    ),
    *("result.success", "report.resolved", "test_result.report.resolved"),
    *("info.success", "info.resolved", "metadata.success", "metadata.resolved"),
)
TERMINATION = (
    "termination",
    "finish_reason",
    "exit_status",
    "exit_reason",
    "stop_reason",
    "stop_condition",
    "termination_reason",
)
SYSTEM = ("system", "system_prompt", "system_message", "request.system", "request.body.system", "body.system")
TOOLS = (
    *("tools", "functions", "oai_tools", "tool_defs"),
    *("available_tools", "request.tools", "request.body.tools", "body.tools", "kwargs.tools", "info.oai_tools"),
)

T = TypeVar("T")


class Columns:
    """The columns of a record, consumed by name."""

    def __init__(self, row: dict[str, Json], taken: Iterable[str] = ()) -> None:
        self.row = row
        self._taken = set(taken)

    def take(self, read: Callable[[Json], T | None], names: Iterable[str]) -> T | None:
        """The first of these columns for which `read` returns a value. A dotted name refers to a nested value, which isn't removed from `rest`."""
        for name in names:
            value = inside(self.row, name)
            if value is not None and (result := read(value)) is not None:
                self._taken.add(name)
                return result
        return None

    def rest(self) -> dict[str, Json]:
        """The columns that weren't taken or couldn't be read."""
        return {key: value for key, value in self.row.items() if key not in self._taken and value is not None}

    def take_rewards(self, steps: list[StepRecord]) -> float | None:
        """The run's stated reward, or else the sum of its steps' rewards. A list with one reward per step is assigned to the steps."""
        stated = self.take(reward_of, REWARD)
        rewards_of_steps = self.take(lambda entry: _numbers(entry, len(steps)), REWARDS)
        if rewards_of_steps is None:
            step_rewards = [step.reward for step in steps if step.reward is not None]
            return sum(step_rewards) if stated is None and step_rewards else stated
        for step, reward in zip(steps, rewards_of_steps, strict=True):
            step.reward = reward
        return sum(rewards_of_steps) if stated is None else stated


def inside(row: dict[str, Json], name: str) -> Json:
    """The value under a name or a dotted path."""
    *path, last = name.split(".")
    for key in path:
        row = mapping(row.get(key))
    return row.get(last)


def named(value: Json) -> str | None:
    """A name: nonempty text, or a number."""
    return str(value) if (type(value) is str and value) or type(value) in (int, float) else None


def nonempty_text(value: Json) -> str | None:
    """Nonempty text."""
    return value if type(value) is str and value else None


def succeeded(row: dict[str, Json], columns: Columns) -> bool | None:
    """Whether the trajectory succeeded, also from a boolean `target`."""
    success = columns.take(flag, SUCCESS)
    return columns.take(_yes_or_no, ("target",)) if success is None else success


def _yes_or_no(value: Json) -> bool | None:
    """A boolean, or its spelling in tables."""
    return flag(value) if type(value) is bool or (type(value) is str and value.lower() in ("true", "false")) else None


def listed(value: Json) -> list[Json] | None:
    """A list, also from JSON text or from an object of equally long lists, the two ways in which tables store lists of objects."""
    if type(value) is str and value.lstrip()[:1] in ("[", "{"):
        try:
            value = jsontext.parse(value)
        except jsontext.UnreadableJSON:
            return None
    if type(value) is dict and value and all(type(column) is list for column in value.values()):
        if len({len(column) for column in value.values()}) != 1:
            return None
        value = [dict(zip(value, entry, strict=True)) for entry in zip(*value.values(), strict=True)]
    return value if type(value) is list else None


def with_subject(row: dict[str, Json], prompt_column: str, prompt: list[Json]) -> tuple[list[str], list[Json]]:
    """The prompt and its columns: Alpaca-style instructions are joined with their `input`."""
    subject = row.get("input")
    if prompt_column != "instruction" or type(subject) is not str or not prompt[0].get("content"):
        return [prompt_column], prompt
    return [prompt_column, "input"], [
        {"role": "user", "content": "\n\n".join(filter(None, (prompt[0]["content"], subject)))}
    ]


def _numbers(value: Json, count: int) -> list[float] | None:
    """A list with exactly one number per step."""
    if type(value) is not list or len(value) != count:
        return None
    rewards = [reward for item in value if (reward := reward_of(item)) is not None]
    return rewards if rewards and len(rewards) == count else None
