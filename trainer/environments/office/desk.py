"""The state of a small office, and the tools that read and change it.

Every public method is a tool. Ids and addresses contain random digits, so that they can only be copied from
results, not guessed.
"""

import copy
from typing import Any, Literal, cast

from contract.values import JsonObject
from trainer.environments.tools import ToolError

Day = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
Folder = Literal["inbox", "archive", "trash"]
Hits = list[dict[str, Any]]


class Desk:
    """One person's mailbox, files, contacts, and calendar.

    state: people [{name, team, address}], files [{file, name, status, text}], mails [{mail, sender, subject, text, folder}],
    calendar {day: [{event, hour}]}, and what has been done: sent [{address, file | mail}], booked [{day, hour, address}].
    """

    def __init__(self, state: JsonObject) -> None:
        self.state: JsonObject = {"sent": [], "booked": [], **copy.deepcopy(state)}

    def find_files(self, name: str, status: str = "") -> Hits:
        """List the files with a name, each with its status.

        Args:
            name: What the file is called, without its status, such as "budget".
            status: Only files of this status, such as "draft"; empty for all.
        """
        files = [f for f in self.state["files"] if same(f["name"], name)]
        hits = [f for f in files if not status.strip() or same(f["status"], status)]
        if not hits:
            raise ToolError(f"no file is called {name!r}" + (f" and is {status!r}" if files else ""))
        return [{"status": f["status"], "file": f["file"]} for f in hits]

    def read_file(self, file: str) -> dict[str, Any]:
        """Show the text of a file.

        Args:
            file: The file's id, as find_files gives it.
        """
        entry = self._find_one("files", "file", file)
        return {"name": entry["name"], "status": entry["status"], "text": entry["text"]}

    def find_contact(self, name: str, team: str = "") -> Hits:
        """List the colleagues with a first name, each with team and address.

        Args:
            name: The first name.
            team: Only those of this team; empty for all.
        """
        people = [p for p in self.state["people"] if same(p["name"], name)]
        hits = [p for p in people if not team.strip() or same(p["team"], team)]
        if not hits:
            raise ToolError(f"nobody here is called {name!r}" + (f" and works in {team!r}" if people else ""))
        return [{"team": p["team"], "address": p["address"]} for p in hits]

    def search_mail(self, sender: str, subject: str = "") -> Hits:
        """List the mails in the inbox from a sender.

        Args:
            sender: The sender's first name.
            subject: Only mails with this subject; empty for all.
        """
        received = [m for m in self.state["mails"] if same(m["sender"], sender) and m["folder"] == "inbox"]
        hits = [m for m in received if not subject.strip() or same(m["subject"], subject)]
        if not hits:
            raise ToolError(f"no mail from {sender!r} in the inbox" + (f" is about {subject!r}" if received else ""))
        return [{"subject": m["subject"], "mail": m["mail"]} for m in hits]

    def read_mail(self, mail: str) -> dict[str, Any]:
        """Show the text of a mail.

        Args:
            mail: The mail's id, as search_mail gives it.
        """
        entry = self._find_one("mails", "mail", mail)
        return {"sender": entry["sender"], "subject": entry["subject"], "text": entry["text"]}

    def send_file(self, file: str, address: str) -> dict[str, Any]:
        """Send a file to an address. This cannot be undone.

        Args:
            file: The file's id.
            address: Where to send it.
        """
        self._find_one("files", "file", file)
        self._known(address)
        self.state["sent"].append({"address": address, "file": file})
        return {"sent": file}

    def forward_mail(self, mail: str, address: str) -> dict[str, Any]:
        """Forward a mail to an address. This cannot be undone.

        Args:
            mail: The mail's id.
            address: Where to send it.
        """
        self._find_one("mails", "mail", mail)
        self._known(address)
        self.state["sent"].append({"address": address, "mail": mail})
        return {"forwarded": mail}

    def move_mail(self, mail: str, folder: Folder) -> dict[str, Any]:
        """Move a mail to a folder.

        Args:
            mail: The mail's id.
            folder: Where to put it.
        """
        self._find_one("mails", "mail", mail)["folder"] = folder
        return {"moved": mail}

    def read_agenda(self, day: Day) -> Hits:
        """Show what each working hour of a day is taken by; "free" where it is not.

        Args:
            day: The day of this week.
        """
        return [dict(entry) for entry in self.state["calendar"][day]]

    def book_meeting(self, day: Day, hour: int, address: str) -> dict[str, Any]:
        """Put a meeting with a colleague into the calendar. Double bookings are not prevented.

        Args:
            day: The day of this week.
            hour: The hour at which it begins, from 9 to 16.
            address: The colleague's address.
        """
        if not 9 <= hour <= 16:
            raise ToolError(f"hour must be from 9 to 16, got {hour}")
        self._known(address)
        self.state["booked"].append({"day": day, "hour": hour, "address": address})
        return {"booked": hour}

    def _find_one(self, kind: str, key: str, value: str) -> dict[str, Any]:
        for entry in self.state[kind]:
            if entry[key] == value:
                return cast("dict[str, Any]", entry)
        raise ToolError(f"there is no {key} {value!r}")

    def _known(self, address: str) -> None:
        if all(person["address"] != address for person in self.state["people"]):
            raise ToolError(f"the address {address!r} is unknown")


def same(text: str, expected: str) -> bool:
    """Whether the texts are equal, ignoring case and whitespace around `expected`."""
    return text.lower() == expected.strip().lower()
