"""Builds a workplace's initial state: people and clients, files and mails, sheets and channels, with ids that can only be looked up."""

import random

from contract.values import JsonObject
from trainer.environments.office.tasks import (
    DAYS,
    EVENTS,
    FILES,
    HOURS,
    NAMES,
    STATUSES,
    SUBJECTS,
    TEAMS,
    is_held_out,
)
from trainer.environments.office.workplace.room import HOME
from trainer.environments.protocol import Split

CLIENTS = ("Borealis", "Kestrel", "Marlow", "Tindale", "Ostrea", "Quarrel", "Brightwater", "Holloway")
SHEETS = ("expenses", "invoices", "stock", "hours")
CHANNELS = ("general", "requests", "news")


class Company:
    """Adds what a request needs, plus distractors."""

    def __init__(self, rng: random.Random, split: Split) -> None:
        self.rng = rng
        self._split = split
        self._numbers = rng.sample(range(100, 1000), 400)
        self._names = rng.sample(NAMES, len(NAMES))
        self.people: list[JsonObject] = []
        self.files: list[JsonObject] = []
        self.mails: list[JsonObject] = []
        self.sheets: list[JsonObject] = []
        self.calendar: dict[str, list[JsonObject]] = {}
        self.messages: dict[str, list[JsonObject]] = {channel: [] for channel in CHANNELS}
        self.user: JsonObject = {"answers": {}, "confirms": True}
        self.page = 5
        self.asked: list[str] = []
        """The request's kind, thing, and person, which decide whether it's for training or held out."""

    def request(self, kind: str, things: tuple[str, ...], people: tuple[str, ...] = NAMES) -> tuple[str, str]:
        """A (thing, person) whose request belongs to this split."""
        while True:
            thing, person = self.rng.choice(things), self.rng.choice(people)
            if is_held_out(kind, thing, person) == (self._split == "held_out"):
                if person in self._names:
                    self._names.remove(person)
                self.asked = [kind, thing, person]
                return thing, person

    def unused_name(self) -> str:
        return self._names.pop()

    def person(self, name: str, team: str) -> str:
        return self._known(name, team, f"{name.lower()}{self._number()}{HOME}")

    def client(self, name: str) -> str:
        return self._known(name, "client", f"desk{self._number()}@{name.lower()}.test")

    def namesakes(self, name: str) -> tuple[str, str]:
        """Add two people of that name. Returns (team, address) of the one who is meant."""
        team, other = self.rng.sample(TEAMS, 2)
        addresses = {team_name: self.person(name, team_name) for team_name in self.rng.sample((team, other), 2)}
        return team, addresses[team]

    def versions(self, name: str, count: int) -> list[JsonObject]:
        """Files of one name with different statuses, in random order."""
        return [self.file(name, status) for status in self.rng.sample(STATUSES, count)]

    def file(self, name: str, status: str) -> JsonObject:
        file = {
            "file": f"f{self._number()}",
            "name": name,
            "status": status,
            "label": self.rng.choice(("public", "internal")),
            "team": self.rng.choice(TEAMS),
            "text": f"The {status} version of the {name}.",
        }
        self.files.append(file)
        return file

    def mail(self, sender: str, subject: str, text: str = "") -> str:
        mail = f"m{self._number()}"
        body = text or f"Hello, please find the {subject} here. Regards, {sender}"
        self.mails.append({"mail": mail, "sender": sender, "subject": subject, "text": body, "folder": "inbox"})
        return mail

    def agenda(self, day: str) -> list[int]:
        """Fill a day of the calendar. Returns the hours that stay free."""
        free = sorted(self.rng.sample(HOURS, self.rng.choice((1, 2))))
        self.calendar[day] = [
            {"event": "free" if hour in free else self.rng.choice(EVENTS), "hour": hour} for hour in HOURS
        ]
        return free

    def sheet(self, name: str, rows: int) -> JsonObject:
        """A spreadsheet of expenses: item, team, amount, status."""
        records = [
            [self.rng.choice(FILES), self.rng.choice(TEAMS), str(10 * self.rng.randint(2, 40)), "open"]
            for _ in range(rows)
        ]
        sheet = {
            "sheet": f"s{self._number()}",
            "name": name,
            "columns": ["item", "team", "amount", "status"],
            "rows": records,
        }
        self.sheets.append(sheet)
        return sheet

    def state(self, faults: JsonObject) -> JsonObject:
        """The whole state, padded with unrelated things."""
        while len(self.people) < 7:
            self.person(self.unused_name(), self.rng.choice(TEAMS))
        self.client(self.rng.choice([name for name in CLIENTS if all(p["name"] != name for p in self.people)]))
        used = {file["name"] for file in self.files}
        for name in self.rng.sample([name for name in FILES if name not in used], 3):
            self.file(name, self.rng.choice(STATUSES))
        for _ in range(3):
            self.mail(self.unused_name(), self.rng.choice(SUBJECTS))
        used_sheets = {sheet["name"] for sheet in self.sheets}
        self.sheet(self.rng.choice([name for name in SHEETS if name not in used_sheets]), 4)
        self.rng.shuffle(self.mails)
        return {
            "people": self.people,
            "files": self.files,
            "mails": self.mails,
            "sheets": self.sheets,
            "calendar": {
                day: self.calendar.get(day) or [{"event": "free", "hour": hour} for hour in HOURS] for day in DAYS
            },
            "channels": [
                {"channel": name, "name": name, "messages": messages} for name, messages in self.messages.items()
            ],
            "user": self.user,
            "faults": faults,
            "page": self.page,
        }

    def _known(self, name: str, team: str, address: str) -> str:
        self.people.append({"name": name, "team": team, "address": address})
        return address

    def _number(self) -> int:
        return self._numbers.pop()
