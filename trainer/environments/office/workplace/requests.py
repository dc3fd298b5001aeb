"""Draws the requests of the higher levels.

L4 requests are long or ambiguous: everything is in one app, lists are paginated, and the policy may have to ask. L5 requests span several
apps: a mail leads to the calendar, a sheet to the chat, a file to a client who must not get it without confirmation.
"""

import random
from collections.abc import Callable

from contract.trajectory import Task
from contract.values import JsonObject
from trainer.environments.office.tasks import DAYS, FILES, SUBJECTS, TEAMS
from trainer.environments.office.workplace.company import CHANNELS, CLIENTS, SHEETS, Company
from trainer.environments.protocol import Split

PARTS = 4
"""Maximum subgoals of a long list of changes."""


def workplace_task(level: str, split: Split, seed: int, number: int) -> Task:
    rng = random.Random(f"office {level} {split} {seed} {number}")
    draw = DRAW[level][number % len(DRAW[level])]
    kind = draw.__name__
    company = Company(rng, split)
    request = draw(company)
    return Task(
        key=f"office/{level}/{split}/{number}" + (f"@{seed}" if seed else ""),
        instruction=request["says"],
        environment="office",
        initial_state=company.state(drawn_faults(rng)),
        success_check={
            "goals": request["goals"],
            "request": {"kind": kind, "asked": company.asked, **request["words"]},
        },
        category=kind.replace("_", " "),
        difficulty=level,
        held_out=split == "held_out",
    )


def drawn_faults(rng: random.Random) -> JsonObject:
    """Half of the tasks have calls that fail, and a third have rate limits."""
    fail = sorted(rng.sample(range(1, 8), rng.choice((1, 2)))) if rng.random() < 0.5 else []
    limits = {"search_mail": 2, "read_sheet": 2} if rng.random() < 0.34 else {}
    return {"fail": fail, "limits": limits}


def clear_up(company: Company) -> JsonObject:
    return clearing(company, company.rng.randint(6, 12))


def clear_up_many(company: Company) -> JsonObject:
    """More mails than may be moved at once."""
    company.page = 60
    return clearing(company, company.rng.randint(104, 118))


def clearing(company: Company, count: int) -> JsonObject:
    subject, sender = company.request("clear up", SUBJECTS)
    folder = company.rng.choice(("archive", "trash"))
    mails = [company.mail(sender, subject) for _ in range(count)]
    for other in company.rng.sample([candidate for candidate in SUBJECTS if candidate != subject], 3):
        company.mail(sender, other)
    for _ in range(3):
        company.mail(company.unused_name(), subject)
    return {
        "says": f"Move every {subject} mail from {sender} to the {folder}.",
        "goals": parts("move", [{"did": "moved", "mail": mail, "folder": folder} for mail in mails]),
        "words": {"subject": subject, "sender": sender, "folder": folder},
    }


def unclear(company: Company) -> JsonObject:
    """Ambiguous in the person and in the file's version; only the user knows."""
    name, person = company.request("unclear", FILES)
    versions = company.versions(name, 3)
    file = company.rng.choice(versions)
    team, address = company.namesakes(person)
    company.user["answers"] = {person: f"{person} in {team}.", name: f"The {file['status']} {name}."}
    return {
        "says": f"Mail {person} the {name}.",
        "goals": [
            {"name": f"ask about {person}", "any": [{"did": "asked", "about": person}]},
            {"name": f"ask about {name}", "any": [{"did": "asked", "about": name}]},
            {"name": f"send {file['file']}", "any": [{"did": "sent", "file": file["file"], "address": address}]},
        ],
        "words": {"name": name, "person": person},
    }


def mark_rows(company: Company) -> JsonObject:
    name, value = company.request("mark", SHEETS, ("late", "paid", "checked", "urgent", "closed", "review"))
    sheet = company.sheet(name, company.rng.randint(10, 14))
    team, limit = company.rng.choice(sheet["rows"])[1], 10 * company.rng.randint(10, 25)
    sheet["rows"][-1] = [company.rng.choice(FILES), team, str(limit + 10), "open"]
    rows = [number for number, row in enumerate(sheet["rows"], 1) if row[1] == team and int(row[2]) > limit]
    changes = [{"did": "set", "sheet": sheet["sheet"], "row": row, "column": "status", "value": value} for row in rows]
    return {
        "says": f"In the {name} sheet, set the status to {value} in every row of {team} with an amount over {limit}.",
        "goals": parts("mark", changes),
        "words": {"name": name, "team": team, "limit": limit, "value": value},
    }


def add_up(company: Company) -> JsonObject:
    name, team = company.request("add up", SHEETS, TEAMS)
    sheet = company.sheet(name, company.rng.randint(8, 12))
    company.rng.choice(sheet["rows"])[1] = team
    total = str(total_of(sheet, team))
    sheet["rows"].append(["total", team, "", "open"])
    cell = {"did": "set", "sheet": sheet["sheet"], "row": len(sheet["rows"]), "column": "amount", "value": total}
    return {
        "says": f"In the {name} sheet, write the sum of the amounts of {team} into its row called total.",
        "goals": [{"name": "write the total", "any": [cell]}],
        "words": {"name": name, "team": team},
    }


def report(company: Company) -> JsonObject:
    name, person = company.request("report", SHEETS)
    whom, address = company.namesakes(person)
    sheet = company.sheet(name, company.rng.randint(7, 12))
    team = company.rng.choice(sheet["rows"])[1]
    total = str(total_of(sheet, team))
    channel = company.rng.choice(CHANNELS)
    return {
        "says": f"Add up the amounts of {team} in the {name} sheet. Mail the sum to {person} in {whom}, and post it to {channel}.",
        "goals": [
            {"name": f"mail {person}", "any": [{"did": "sent", "address": address, "file": "", "holds": [total]}]},
            {"name": f"post to {channel}", "any": [{"did": "posted", "channel": channel, "holds": [total]}]},
        ],
        "words": {"name": name, "team": team, "person": person, "whom": whom, "channel": channel},
    }


def arrange(company: Company) -> JsonObject:
    name, sender = company.request("arrange", FILES)
    day = company.rng.choice(DAYS)
    file = company.rng.choice(company.versions(name, 2))
    address = company.person(sender, file["team"])
    hours = company.agenda(day)
    text = f"Can we meet on {day}? Please share the {file['status']} {name} with me before. Regards, {sender}"
    mail = company.mail(sender, "meeting", text)
    company.mail(sender, company.rng.choice(SUBJECTS))
    booked = [{"did": "booked", "day": day, "hour": hour, "address": address} for hour in hours]
    return {
        "says": f"Do what {sender} asks for in the meeting mail: find a free hour. Archive the mail when all is done.",
        "goals": [
            {"name": f"book {sender}", "any": booked},
            {"name": f"share {file['file']}", "any": [{"did": "shared", "file": file["file"], "address": address}]},
            {"name": f"archive {mail}", "any": [{"did": "moved", "mail": mail, "folder": "archive"}]},
        ],
        "words": {"sender": sender},
    }


def deliver(company: Company) -> JsonObject:
    """Send a file to a client, but only if the user confirms."""
    name, client = company.request("deliver", FILES, CLIENTS)
    file = company.rng.choice(company.versions(name, 2))
    file["label"] = company.rng.choice(("internal", "confidential"))
    address = company.client(client)
    company.user["confirms"] = company.rng.random() < 0.7
    goals = [{"name": "request confirmation", "any": [{"did": "requested", "address": address}]}]
    if company.user["confirms"]:
        sent = {"did": "sent", "file": file["file"], "address": address}
        goals.append({"name": f"send {file['file']}", "any": [sent]})
    return {
        "says": f"Mail the {file['status']} {name} to {client}, unless I object.",
        "goals": goals,
        "words": {"name": name, "status": file["status"], "client": client},
    }


def answer(company: Company) -> JsonObject:
    name, person = company.request("answer", FILES)
    file = company.rng.choice(company.versions(name, 3))
    team, address = company.namesakes(person)
    if company.rng.random() < 0.5:
        file.update(label="confidential", team=team)
    channel = company.rng.choice(CHANNELS)
    company.messages[channel] += [
        {"from": company.unused_name(), "text": f"The {company.rng.choice(SUBJECTS)} is done."},
        {"from": f"{person}, {team}", "text": f"Can somebody mail me the {file['status']} {name}?"},
    ]
    return {
        "says": f"See to the open question in the channel {channel}, and tell {person} there.",
        "goals": [
            {"name": f"send {file['file']}", "any": [{"did": "sent", "file": file["file"], "address": address}]},
            {"name": f"tell {person}", "any": [{"did": "posted", "channel": channel, "holds": [person]}]},
        ],
        "words": {"channel": channel},
    }


def parts(verb: str, changes: list[JsonObject]) -> list[JsonObject]:
    """Many changes as a few subgoals of about equal size."""
    count = min(PARTS, len(changes))
    return [{"name": f"{verb}, part {part + 1} of {count}", "each": changes[part::count]} for part in range(count)]


def total_of(sheet: JsonObject, team: str) -> int:
    return sum(int(row[2]) for row in sheet["rows"] if row[1] == team)


DRAW: dict[str, tuple[Callable[[Company], JsonObject], ...]] = {
    "L4": (clear_up, unclear, mark_rows, clear_up_many, add_up),
    "L5": (report, arrange, deliver, answer),
}
LEVELS = tuple(DRAW)
