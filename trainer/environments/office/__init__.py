"""A sandbox for an office assistant.

L1 to L3 are a desk with a mailbox, files, contacts, and a calendar behind ten tools. L4 and L5 are a workplace with spreadsheets, chat, rules, and
tools that sometimes fail. Only the final state decides success. Ids are random, so a policy has to look them up.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, ClassVar

from contract.messages import Message
from contract.trajectory import Task
from trainer.environments.office.desk import Desk
from trainer.environments.office.goals import score
from trainer.environments.office.scripts import SCRIPTS
from trainer.environments.office.tasks import LEVELS as DESK_LEVELS
from trainer.environments.office.tasks import office_task
from trainer.environments.office.workplace import TOOLS as WORKPLACE_TOOLS
from trainer.environments.office.workplace import Workplace
from trainer.environments.office.workplace.requests import LEVELS as WORKPLACE_LEVELS
from trainer.environments.office.workplace.requests import workplace_task
from trainer.environments.office.workplace.success_checks import judge
from trainer.environments.protocol import Score, Split, Transition
from trainer.environments.scripts import ScriptFactory
from trainer.environments.tool_environment import ToolEnvironment
from trainer.environments.tools import Toolset
from trainer.failures import DataFailure

DESK_TOOLS = Toolset(Desk)
SYSTEM = "You run an office desk. Look ids up, never guess."
WORKPLACE_SYSTEM = (
    "You work at an office. Look ids up, never guess; where it is unclear what is meant, ask the user. Preview mail before you send it, read "
    "files before you share them, and say what you are about to do. Nothing leaves the company without confirmation."
)


class Office(ToolEnvironment):
    """One episode at the desk."""

    name: ClassVar[str] = "office"
    levels: ClassVar[tuple[str, ...]] = (*DESK_LEVELS, *WORKPLACE_LEVELS)
    usual_levels: ClassVar[tuple[str, ...]] = DESK_LEVELS
    scripts: ClassVar[Mapping[str, ScriptFactory]] = SCRIPTS
    toolset: Toolset = DESK_TOOLS

    @classmethod
    def tasks(cls, *, levels: tuple[str, ...], split: Split, seed: int) -> Iterator[Task]:
        """The n-th task of a level, split and seed is always the same."""
        for number in count():
            for level in levels:
                draw = workplace_task if level in WORKPLACE_LEVELS else office_task
                yield draw(level, split, seed, number)

    def begin(self, task: Task) -> list[Message]:
        if (
            not task.initial_state.keys() >= {"people", "files", "mails", "calendar"}
            or "goals" not in task.success_check
        ):
            raise DataFailure(
                f"Task {task.key!r} cannot be set up in the office.",
                advice="Its initial_state needs people, files, mails and calendar, its success_check needs goals.",
            )
        self.task = task
        if "channels" in task.initial_state:
            self.toolset, self.world, system = WORKPLACE_TOOLS, Workplace(task.initial_state), WORKPLACE_SYSTEM
        else:
            self.toolset, self.world, system = DESK_TOOLS, Desk(task.initial_state), SYSTEM
        return [{"role": "system", "content": system}, {"role": "user", "content": task.instruction}]

    def step(self, action: Message) -> Transition:
        if isinstance(self.world, Workplace):
            self.world.conduct.begin_turn(str(action.get("content") or ""))
        return super().step(action)

    def details(self) -> dict[str, Any]:
        return {"violations": self.world.conduct.turn} if isinstance(self.world, Workplace) else {}

    def score(self) -> Score:
        if isinstance(self.world, Workplace):
            return judge(self.task.success_check["goals"], self.world.changes, self.world.conduct)
        return score(self.task.success_check["goals"], self.world.state, self.task.initial_state)
