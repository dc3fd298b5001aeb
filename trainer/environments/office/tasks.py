"""Draws the tasks of the desk: a world, an instruction, and the goals that the instruction means.

Levels: L1 asks for one thing, and names are unique. L2 has namesakes to distinguish, or several mails to find among others.
L3 asks for two things. Every world contains a tempting wrong answer: a draft before the final file, a namesake, a
mail on another subject, a busy first hour.

A request (who gets what) is either for training or held out, decided by a hash of its words: no training task ever
makes the same request as a held-out one.
"""

import random
import zlib
from typing import get_args

from contract.trajectory import Task
from contract.values import JsonObject
from trainer.environments.office.desk import Day
from trainer.environments.protocol import Split

NAMES = (
    "Ana",
    "Ben",
    "Cora",
    "Dan",
    "Eva",
    "Finn",
    "Gina",
    "Hugo",
    "Ida",
    "Jon",
    "Kim",
    "Lena",
    "Mia",
    "Nils",
    "Omar",
    "Pia",
    "Quinn",
    "Rosa",
    "Sam",
    "Tara",
)
TEAMS = ("sales", "legal", "support", "design", "finance")
FILES = (
    "budget",
    "roadmap",
    "contract",
    "forecast",
    "handbook",
    "price-list",
    "offer",
    "schedule",
    "survey",
    "summary",
)
STATUSES = ("draft", "final", "old", "signed")
SUBJECTS = ("invoice", "order", "photos", "minutes", "receipt", "travel", "news", "question")
EVENTS = ("review", "standup", "lunch", "training", "call")
DAYS: tuple[str, ...] = get_args(Day)
HOURS = (9, 10, 11, 14)
HELD_OUT_ONE_IN = 5

LEVELS = ("L1", "L2", "L3")
KINDS = {"L1": ("share", "forward", "book"), "L2": ("share", "forward", "book", "archive")}
PAIRS = (("share", "archive"), ("forward", "book"), ("share", "book"), ("archive", "forward"))


def office_task(level: str, split: Split, seed: int, number: int) -> Task:
    world = World(random.Random(f"office {level} {split} {seed} {number}"), split, namesakes=level != "L1")
    kinds = PAIRS[number % len(PAIRS)] if level == "L3" else (KINDS[level][number % len(KINDS[level])],)
    goals = [getattr(world, kind)() for kind in kinds]
    sentences = [sentence(goal) for goal in goals]
    return Task(
        key=f"office/{level}/{split}/{number}" + (f"@{seed}" if seed else ""),
        instruction=" Then: ".join(sentences),
        environment="office",
        initial_state=world.state(),
        success_check={"goals": goals},
        category=" + ".join(kinds),
        difficulty=level,
        held_out=split == "held_out",
    )


def is_held_out(*request: str) -> bool:
    return zlib.crc32(" ".join(request).encode()) % HELD_OUT_ONE_IN == 0


def sentence(goal: JsonObject) -> str:
    """The goal as an instruction from the user."""
    whom = f"{goal.get('person')} in {goal.get('team')}" if goal.get("team") else goal.get("person")
    match goal["goal"]:
        case "file_sent":
            return f"Send the {goal['status']} {goal['name']} to {whom}."
        case "mail_forwarded":
            return f"Forward the {goal['subject']} mail from {goal['sender']} to {whom}."
        case "mails_archived":
            return f"Archive every {goal['subject']} mail from {goal['sender']}."
        case _:
            return f"Book {whom} on {goal['day']} in a free hour."


class World:
    """An office under construction: adds what each request needs, plus distractors."""

    def __init__(self, rng: random.Random, split: Split, *, namesakes: bool) -> None:
        self.rng = rng
        self.split = split
        self.namesakes = namesakes
        self.numbers = rng.sample(range(10, 100), 60)
        self.names = rng.sample(NAMES, len(NAMES))
        self.people: list[JsonObject] = []
        self.files: list[JsonObject] = []
        self.mails: list[JsonObject] = []
        self.calendar: dict[str, list[JsonObject]] = {}

    def share(self) -> JsonObject:
        name, person = self._request("file", FILES)
        contact = self._contact(person)
        status = self.rng.choice(STATUSES)
        other_statuses = [other for other in STATUSES if other != status]
        statuses = [status, *self.rng.sample(other_statuses, self.rng.choice((1, 2)))]
        self.rng.shuffle(statuses)
        ids = {status: self._file(name, status) for status in statuses}
        return {"goal": "file_sent", "name": name, "status": status, **contact, "file": ids[status]}

    def forward(self) -> JsonObject:
        subject, sender = self._request("mail", SUBJECTS)
        contact = self._contact(self._unused_name())
        subjects = [subject, *self._other_subjects(subject, self.rng.choice((1, 2)))]
        self.rng.shuffle(subjects)
        ids = {subject: self._mail(sender, subject) for subject in subjects}
        return {"goal": "mail_forwarded", "sender": sender, "subject": subject, **contact, "mail": ids[subject]}

    def archive(self) -> JsonObject:
        subject, sender = self._request("archive", SUBJECTS)
        subjects = [subject, subject, *self._other_subjects(subject, 1)]
        self.rng.shuffle(subjects)
        ids = [(title, self._mail(sender, title)) for title in subjects]
        mails = [mail for title, mail in ids if title == subject]
        return {"goal": "mails_archived", "sender": sender, "subject": subject, "mails": mails}

    def book(self) -> JsonObject:
        day, person = self._request("day", DAYS)
        contact = self._contact(person)
        entries = [{"event": self.rng.choice(EVENTS), "hour": hour} for hour in HOURS]
        free = self.rng.sample(range(len(HOURS)), self.rng.choice((1, 2)))
        for index in free:
            entries[index]["event"] = "free"
        self.calendar[day] = entries
        return {"goal": "meeting_booked", **contact, "day": day, "hours": [HOURS[index] for index in sorted(free)]}

    def state(self) -> JsonObject:
        """The world, padded with unrelated people, files, mails, and days."""
        while len(self.people) < 6:
            self._person(self._unused_name(), self.rng.choice(TEAMS))
        used = {file["name"] for file in self.files}
        for name in self.rng.sample([name for name in FILES if name not in used], 2):
            self._file(name, self.rng.choice(STATUSES))
        for _ in range(2):
            self._mail(self._unused_name(), self.rng.choice(SUBJECTS))
        calendar = {day: self.calendar.get(day) or [{"event": "free", "hour": hour} for hour in HOURS] for day in DAYS}
        return {"people": self.people, "files": self.files, "mails": self.mails, "calendar": calendar}

    def _request(self, kind: str, things: tuple[str, ...]) -> tuple[str, str]:
        """A (thing, person) whose request belongs to this world's split."""
        while True:
            thing, person = self.rng.choice(things), self.rng.choice(self.names)
            if is_held_out(kind, thing, person) == (self.split == "held_out"):
                self.names.remove(person)
                return thing, person

    def _unused_name(self) -> str:
        return self.names.pop()

    def _other_subjects(self, subject: str, count: int) -> list[str]:
        return self.rng.sample([other for other in SUBJECTS if other != subject], count)

    def _contact(self, name: str) -> JsonObject:
        """Add the person, and a namesake in another team if the level has them."""
        if not self.namesakes:
            return {"person": name, "team": "", "address": self._person(name, self.rng.choice(TEAMS))}
        team, other = self.rng.sample(TEAMS, 2)
        teams = [team, other]
        self.rng.shuffle(teams)
        addresses = {team: self._person(name, team) for team in teams}
        return {"person": name, "team": team, "address": addresses[team]}

    def _person(self, name: str, team: str) -> str:
        address = f"{name.lower()}{self.numbers.pop()}@office.test"
        self.people.append({"name": name, "team": team, "address": address})
        return address

    def _file(self, name: str, status: str) -> str:
        file = f"f{self.numbers.pop()}"
        text = f"The {status} version of the {name}."
        self.files.append({"file": file, "name": name, "status": status, "text": text})
        return file

    def _mail(self, sender: str, subject: str) -> str:
        mail = f"m{self.numbers.pop()}"
        text = f"Hello, please find the {subject} here. Regards, {sender}"
        self.mails.append({"mail": mail, "sender": sender, "subject": subject, "text": text, "folder": "inbox"})
        return mail
