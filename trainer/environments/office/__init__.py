"""An office co-pilot's sandbox: mailbox, files, contacts and calendar behind ten tools.

The final state alone decides success. Worlds are small and hold random ids, so what a policy needs must be looked up.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from trainer.environments.office.desk import SCHEMA_OF, SCHEMAS, TOOLS, Desk
from trainer.environments.office.goals import score
from trainer.environments.office.scripts import SCRIPTS
from trainer.environments.office.tasks import LEVELS, office_tasks
from trainer.environments.protocol import Score, Split, Transition
from trainer.environments.scripting import ScriptFactory
from trainer.environments.tools import ToolError, checked_arguments
from trainer.failures import DataFailure
from trainer.records import JsonObject, Message, Task, ToolSchema

SYSTEM = "You run an office desk. Look ids up, never guess."


class Office:
    """One episode at the desk. An assistant message without tool calls ends it."""

    name: ClassVar[str] = "office"
    levels: ClassVar[tuple[str, ...]] = LEVELS
    scripts: ClassVar[Mapping[str, ScriptFactory]] = SCRIPTS

    def __init__(self) -> None:
        self._desk = Desk({})
        self._task = Task(key="", instruction="")
        self._reward = 0.0

    @property
    def tools(self) -> list[ToolSchema]:
        return SCHEMAS

    @classmethod
    def tasks(cls, *, levels: tuple[str, ...], split: Split, seed: int) -> Iterator[Task]:
        return office_tasks(levels=levels, split=split, seed=seed)

    def reset(self, task: Task) -> list[Message]:
        if (
            not task.initial_state.keys() >= {"people", "files", "mails", "calendar"}
            or "goals" not in task.success_check
        ):
            raise DataFailure(
                f"Task {task.key!r} cannot be set up in the office.",
                advice="Its initial_state needs people, files, mails and calendar, its success_check needs goals.",
            )
        self._task = task
        self._desk = Desk(task.initial_state)
        self._reward = 0.0
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task.instruction}]

    def step(self, action: Message) -> Transition:
        observation: list[Message] = []
        info: dict[str, Any] = {}
        for tool_call in action.get("tool_calls") or []:
            try:
                content = json.dumps(self._call(tool_call.get("function") or {}))
            except ToolError as error:
                info.setdefault("error", str(error))
                content = json.dumps({"error": str(error)})
            observation.append({"role": "tool", "tool_call_id": tool_call.get("id", ""), "content": content})
        now = self.score()
        reward, self._reward = now.reward - self._reward, now.reward
        return Transition(observation, round(reward, 4), not observation, {**info, "subgoals": now.subgoals})

    def score(self) -> Score:
        return score(self._task.success_check["goals"], self._desk.state, self._task.initial_state)

    def _call(self, function: JsonObject) -> Any:
        name = function.get("name")
        if not isinstance(name, str) or name not in TOOLS:
            raise ToolError(f"there is no tool {name!r}")
        return TOOLS[name](self._desk, **checked_arguments(SCHEMA_OF[name], function.get("arguments")))
