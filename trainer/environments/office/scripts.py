"""Scripted office workers of different quality, all deterministic by seed.

They know what the instruction means (its goals, in words) but take every id and address from tool results, as any policy must.
Their quality differs by their habits: how often they take a tempting shortcut instead.
"""

import random
from collections.abc import Generator
from functools import partial
from typing import Any

from contract.trajectory import Task
from contract.values import JsonObject
from trainer.environments.office.desk import Hits
from trainer.environments.office.habits import HABITS, Habits
from trainer.environments.office.workplace.scripted_work import carry_out_request
from trainer.environments.scripts import Call, Script, ScriptFactory


def work(habits: Habits, task: Task, rng: random.Random) -> Script:
    """Reach each goal in turn, then report."""
    if "request" in task.success_check:
        return (yield from carry_out_request(habits, task, rng))
    worker = Worker(habits, rng)
    goals = task.success_check["goals"]
    for goal in goals:
        script = getattr(worker, goal["goal"])(goal)
        yield from script if habits.thinks else without_thoughts(script)
    return "Done: " + ", ".join(SAYS[goal["goal"]].format(**goal) for goal in goals) + "."


def without_thoughts(script: Script) -> Script:
    try:
        call = next(script)
        while True:
            call = script.send((yield call._replace(thought="")))
    except StopIteration as end:
        return str(end.value)


SAYS = {
    "file_sent": "{status} {name} sent to {person}",
    "mail_forwarded": "{subject} mail forwarded to {person}",
    "mails_archived": "{subject} mails archived",
    "meeting_booked": "{person} booked on {day}",
}


class Worker:
    """One way to reach each kind of goal."""

    def __init__(self, habits: Habits, rng: random.Random) -> None:
        self.habits = habits
        self.rng = rng

    def file_sent(self, goal: JsonObject) -> Script:
        files = yield from self._look("find_files", "name", goal, "status", f"Which files are called {goal['name']}?")
        file = files[0]["file"]
        address = yield from self._address(goal)
        if self._happens(self.habits.acts):
            yield from self._copying("send_file", {"file": file, "address": address}, "file", "Now I can send it.")
        return ""

    def mail_forwarded(self, goal: JsonObject) -> Script:
        mails = yield from self._look("search_mail", "sender", goal, "subject", f"What did {goal['sender']} write?")
        mail = mails[0]["mail"]
        address = yield from self._address(goal)
        if self._happens(self.habits.acts):
            yield from self._copying("forward_mail", {"mail": mail, "address": address}, "mail", "Now I forward it.")
        return ""

    def mails_archived(self, goal: JsonObject) -> Script:
        mails = yield from self._look("search_mail", "sender", goal, "subject", f"What did {goal['sender']} write?")
        for index, mail in enumerate(hit["mail"] for hit in mails):
            if index and not self._happens(self.habits.completes):
                return ""
            yield from self._copying("move_mail", {"mail": mail, "folder": "archive"}, "mail", f"{mail} belongs there.")
        return ""

    def meeting_booked(self, goal: JsonObject) -> Script:
        hour = 9
        if self._happens(self.habits.checks):
            agenda = yield Call("read_agenda", {"day": goal["day"]}, f"Which hours are free on {goal['day']}?")
            hour = next(entry["hour"] for entry in agenda if entry["event"] == "free")
        address = yield from self._address(goal)
        if self._happens(self.habits.acts):
            meeting = {"day": goal["day"], "hour": hour, "address": address}
            yield Call("book_meeting", meeting, f"I take {hour} o'clock.")
        return ""

    def _address(self, goal: JsonObject) -> Generator[Call, Any, str]:
        contact_goal = {**goal, "name": goal["person"]}
        people = yield from self._look(
            "find_contact", "name", contact_goal, "team", f"I need the address of {goal['person']}."
        )
        return str(people[0]["address"])

    def _look(self, tool: str, key: str, goal: JsonObject, narrow: str, thought: str) -> Generator[Call, Any, Hits]:
        """Search results: only those that are meant, or everything of that name."""
        query = {key: goal[key]}
        if goal[narrow] and self._happens(self.habits.compares):
            query[narrow] = goal[narrow]
        hits: Hits = yield Call(tool, query, thought)
        return hits

    def _copying(self, tool: str, arguments: JsonObject, key: str, thought: str) -> Script:
        """Make the call; after a typo in an id, see the error and try again."""
        if not self._happens(self.habits.copies):
            slip = {**arguments, key: self._mistyped(arguments[key])}
            result = yield Call(tool, slip, thought)
            if "error" not in result:  # the wrong id exists, so the mistake goes unnoticed
                return ""
            thought = "That id was wrong, once more."
        yield Call(tool, arguments, thought)
        return ""

    def _mistyped(self, text: str) -> str:
        return text[:-1] + self.rng.choice([digit for digit in "0123456789" if digit != text[-1]])

    def _happens(self, probability: float) -> bool:
        return self.rng.random() < probability


SCRIPTS: dict[str, ScriptFactory] = {name: partial(work, habits) for name, habits in HABITS.items()}
