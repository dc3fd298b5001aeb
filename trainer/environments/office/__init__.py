"""An office co-pilot's sandbox: mailbox, files, contacts and calendar behind ten tools.

The final state alone decides success. Worlds are small and hold random ids, so what a policy needs must be looked up.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from trainer.environments.acting import ToolEnvironment
from trainer.environments.office.desk import Desk
from trainer.environments.office.goals import score
from trainer.environments.office.scripts import SCRIPTS
from trainer.environments.office.tasks import LEVELS, office_tasks
from trainer.environments.protocol import Score, Split
from trainer.environments.scripting import ScriptFactory
from trainer.environments.tools import Toolset
from trainer.failures import DataFailure
from trainer.records import Message, Task

SYSTEM = "You run an office desk. Look ids up, never guess."


class Office(ToolEnvironment):
    """One episode at the desk."""

    name: ClassVar[str] = "office"
    levels: ClassVar[tuple[str, ...]] = LEVELS
    scripts: ClassVar[Mapping[str, ScriptFactory]] = SCRIPTS
    toolset = Toolset(Desk)

    @classmethod
    def tasks(cls, *, levels: tuple[str, ...], split: Split, seed: int) -> Iterator[Task]:
        return office_tasks(levels=levels, split=split, seed=seed)

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
        self.world = Desk(task.initial_state)
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task.instruction}]

    def score(self) -> Score:
        return score(self.task.success_check["goals"], self.world.state, self.task.initial_state)
