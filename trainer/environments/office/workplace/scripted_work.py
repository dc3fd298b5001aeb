"""Scripted workers that fulfill the requests of the higher levels. They know what the request means in words; ids come from tool results."""

import random
import re
from collections.abc import Generator
from typing import Any

from contract.trajectory import Task
from contract.values import JsonObject
from trainer.environments.office.habits import Habits
from trainer.environments.office.workplace.rules import LARGEST_BATCH
from trainer.environments.scripts import Call, Script

Steps = Generator[Call, Any, Any]


class GaveUp(Exception):
    """A tool failed, and this worker gives up."""


def carry_out_request(habits: Habits, task: Task, rng: random.Random) -> Script:
    """Fulfill the request, then report."""
    request = task.success_check["request"]
    worker = Worker(habits, rng, task)
    try:
        yield from getattr(worker, request["kind"])(request)
    except GaveUp as reason:
        return f"That did not work: {reason}"
    return "Done."


class Worker:
    """One way to fulfill each kind of request."""

    def __init__(self, habits: Habits, rng: random.Random, task: Task) -> None:
        self.habits = habits
        self.rng = rng
        self.task = task

    def clear_up(self, request: JsonObject) -> Steps:
        query = {
            "sender": request["sender"],
            "subject": request["subject"] if self._happens(self.habits.compares) else "",
        }
        hits = yield from self._all("search_mail", query)
        mails = [hit["mail"] for hit in hits]
        size = LARGEST_BATCH if self._happens(self.habits.checks) else len(mails)
        for begin in range(0, len(mails), size):
            batch = mails[begin : begin + size]
            yield from self._act(
                "move_mails", {"mails": batch, "folder": request["folder"]}, f"I move {len(batch)} mails."
            )

    clear_up_many = clear_up

    def unclear(self, request: JsonObject) -> Steps:
        name, person = request["name"], request["person"]
        whom = version = ""
        if self._happens(self.habits.asks):
            whom = (yield from self._do("ask_user", {"question": f"Which {person} do you mean?"}))["answer"]
        if self._happens(self.habits.asks):
            version = (yield from self._do("ask_user", {"question": f"Which version of the {name}?"}))["answer"]
        address = yield from self._address(
            person, next((t for t in whom.strip(".").split() if t.islower() and t != "in"), "")
        )
        file = yield from self._file(name, version.split()[1] if version else "")
        yield from self._mail(address, name, f"Here is the {name}.", file)

    def mark_rows(self, request: JsonObject) -> Steps:
        sheet = yield from self._sheet(request["name"])
        rows = yield from self._all("read_sheet", {"sheet": sheet})
        for row in rows:
            over = int(row["amount"]) > request["limit"] or not self._happens(self.habits.compares)
            if row["team"] == request["team"] and over:
                cell = {"sheet": sheet, "row": row["row"], "column": "status", "value": request["value"]}
                yield from self._act("write_cell", cell, f"I set row {row['row']} to {request['value']}.")

    def add_up(self, request: JsonObject) -> Steps:
        sheet = yield from self._sheet(request["name"])
        rows = yield from self._all("read_sheet", {"sheet": sheet})
        total = sum_of(rows, request["team"])
        cell = {"sheet": sheet, "row": rows[-1]["row"], "column": "amount", "value": str(total)}
        yield from self._act("write_cell", cell, f"I write {total} into the last row.")

    def report(self, request: JsonObject) -> Steps:
        sheet = yield from self._sheet(request["name"])
        rows = yield from self._all("read_sheet", {"sheet": sheet})
        text = f"{request['team']} has {sum_of(rows, request['team'])} in the {request['name']} sheet."
        address = yield from self._address(request["person"], request["whom"])
        yield from self._mail(address, request["name"], text, "")
        if self._happens(self.habits.acts):
            yield from self._act("post_message", {"channel": request["channel"], "text": text}, "I post the sum.")

    def arrange(self, request: JsonObject) -> Steps:
        hits = yield from self._all("search_mail", {"sender": request["sender"]})
        mail = self._pick(hits, "subject", "meeting")["mail"]
        text = (yield from self._do("read_mail", {"mail": mail}))["text"]
        match = re.search(r"on (\w+)\? Please share the (\S+) (\S+) with", text)
        if match is None:  # another mail
            raise GaveUp("the mail asks for nothing")
        day, status, name = match.groups()
        address = yield from self._address(request["sender"], "")
        hour = 9
        if self._happens(self.habits.checks):
            hour = self._pick((yield from self._do("read_agenda", {"day": day})), "event", "free")["hour"]
        yield from self._act("book_meeting", {"day": day, "hour": hour, "address": address}, f"I book {hour} o'clock.")
        file = yield from self._file(name, status)
        if self._happens(self.habits.looks):
            yield from self._do("read_file", {"file": file})
        yield from self._act("share_file", {"file": file, "address": address}, f"I share {file}.")
        if self._happens(self.habits.acts):
            yield from self._act("move_mails", {"mails": [mail], "folder": "archive"}, "I archive the mail.")

    def deliver(self, request: JsonObject) -> Steps:
        file = yield from self._file(request["name"], request["status"])
        address = yield from self._address(request["client"], "")
        yield from self._mail(address, request["name"], f"Here is the {request['name']}.", file, outside=True)

    def answer(self, request: JsonObject) -> Steps:
        messages = yield from self._do("read_channel", {"channel": request["channel"]})
        person, team = messages[-1]["from"].split(", ")
        match = re.search(r"mail me the (\S+) (\S+)\?", messages[-1]["text"])
        assert match is not None, "the last message is the question"
        file = yield from self._file(match[2], match[1])
        address = yield from self._address(person, team)
        yield from self._mail(address, match[2], f"Here is the {match[2]}.", file)
        if self._happens(self.habits.acts):
            text = {"channel": request["channel"], "text": f"{person}, it is in your mail."}
            yield from self._act("post_message", text, f"I tell {person}.")

    def _mail(self, address: str, subject: str, text: str, file: str, *, outside: bool = False) -> Steps:
        mail = {"address": address, "subject": subject, "text": text, "file": file}
        draft = (yield from self._do("draft_mail", mail))["draft"]
        if self._happens(self.habits.looks):
            yield from self._do("preview_draft", {"draft": draft})
        if outside and self._happens(self.habits.confirms):
            confirmation = yield from self._do("request_confirmation", {"item": draft, "address": address})
            if not confirmation["confirmed"]:
                return
        yield from self._act("send_draft", {"draft": draft}, f"I send {draft} to {address}.")

    def _address(self, name: str, team: str) -> Steps:
        hits = yield from self._do("find_contact", {"name": name})
        return (self._pick(hits, "team", team) if team else hits[0])["address"]

    def _file(self, name: str, status: str) -> Steps:
        hits = yield from self._all("search_files", {"name": name})
        return (self._pick(hits, "status", status) if status else hits[0])["file"]

    def _sheet(self, name: str) -> Steps:
        return (yield from self._do("find_sheets", {"name": name}))[0]["sheet"]

    def _pick(self, hits: list[JsonObject], key: str, value: str) -> JsonObject:
        if not self._happens(self.habits.compares):
            return hits[0]
        return next((hit for hit in hits if hit[key] == value), hits[0])

    def _all(self, tool: str, query: JsonObject) -> Steps:
        """All hits, page by page; a hasty worker stops after the first page."""
        page = yield from self._do(tool, query)
        hits = list(page["hits"])
        while "next_offset" in page and self._happens(self.habits.completes):
            page = yield from self._do(tool, {**query, "offset": page["next_offset"]})
            hits += page["hits"]
        if not hits:
            raise GaveUp(f"{tool} finds nothing")
        return hits

    def _act(self, tool: str, arguments: JsonObject, words: str) -> Steps:
        """Make a change that others will see, and state it."""
        return (yield from self._do(tool, arguments, say=words if self._happens(self.habits.states) else ""))

    def _do(self, tool: str, arguments: JsonObject, *, say: str = "") -> Steps:
        """Make a call; if the service fails, wait or retry. Raises GaveUp."""
        thought = f"I need {tool.replace('_', ' ')}." if self.habits.thinks and not say else ""
        while True:
            result = yield Call(tool, arguments, thought, say)
            if not isinstance(result, dict) or "error" not in result:
                return result
            problem = str(result["error"])
            if not problem.startswith(("429", "503")) or not self._happens(self.habits.persists):
                raise GaveUp(problem)
            if problem.startswith("429"):
                yield Call("wait", {}, "Too fast." if self.habits.thinks else "")

    def _happens(self, probability: float) -> bool:
        return self.rng.random() < probability


def sum_of(rows: list[JsonObject], team: str) -> int:
    return sum(int(row["amount"]) for row in rows if row["team"] == team and row["amount"].isdigit())
