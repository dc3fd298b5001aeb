"""People and their mail."""

from itertools import count
from typing import Any, Literal

from trainer.environments.office.workplace.room import HOME, Room
from trainer.environments.tools import ToolError

Folder = Literal["inbox", "archive", "trash"]


class Mail(Room):
    """Tools on contacts, mails, and drafts."""

    def find_contact(self, name: str) -> list[dict[str, Any]]:
        """List people with a name: colleagues with their team, and contacts at other companies.

        Args:
            name: A first name, or the name of a company.
        """
        hits = [person for person in self._state["people"] if person["name"].lower() == name.strip().lower()]
        if not hits:
            raise ToolError(f"nobody is called {name!r}")
        return [{"team": person["team"], "address": person["address"]} for person in hits]

    def search_mail(self, sender: str, subject: str = "", offset: int = 0) -> dict[str, Any]:
        """List mails in the inbox, a page at a time.

        Args:
            sender: The sender's first name; empty for all.
            subject: Words of the subject; empty for all.
            offset: Where to go on in a list that was cut.
        """
        hits = [
            {"mail": mail["mail"], "sender": mail["sender"], "subject": mail["subject"]}
            for mail in self._state["mails"]
            if mail["folder"] == "inbox"
            and sender.strip().lower() in ("", mail["sender"].lower())
            and subject.strip().lower() in mail["subject"].lower()
        ]
        return self._cut(hits, offset)

    def read_mail(self, mail: str) -> dict[str, Any]:
        """Show a mail.

        Args:
            mail: The mail's id.
        """
        entry = self._find_one("mails", "mail", mail)
        return {"sender": entry["sender"], "subject": entry["subject"], "text": entry["text"]}

    def move_mails(self, mails: list[str], folder: Folder) -> dict[str, Any]:
        """Move mails to a folder, at most 100 at once.

        Args:
            mails: The ids of the mails.
            folder: Where to put them.
        """
        self._check_batch(mails)
        entries = [self._find_one("mails", "mail", mail) for mail in mails]
        self.conduct.acts()
        for mail in entries:
            if mail["folder"] != folder:
                mail["folder"] = folder
                self.changes.append({"did": "moved", "mail": mail["mail"], "folder": folder})
        return {"moved": len(entries)}

    def delete_mails(self, mails: list[str], permanent: bool = False) -> dict[str, Any]:
        """Delete mails: into the trash, unless permanent.

        Args:
            mails: The ids of the mails.
            permanent: Whether they shall be gone for good.
        """
        if permanent:
            raise self.conduct.refuse("permanent_delete")
        return self.move_mails(mails, "trash")

    def draft_mail(self, address: str, subject: str, text: str, file: str = "") -> dict[str, Any]:
        """Write a mail without sending it.

        Args:
            address: To whom.
            subject: A few words.
            text: What it says.
            file: The id of a file to attach; empty for none.
        """
        self._check_address(address)
        if file:
            self._find_one("files", "file", file)
        draft = next(free for number in count(1) if (free := f"d{number}") not in self._drafts)
        self._drafts[draft] = {"address": address, "subject": subject, "text": text, "file": file}
        return {"draft": draft}

    def preview_draft(self, draft: str) -> dict[str, Any]:
        """Show a draft as it would leave: who gets what.

        Args:
            draft: The draft's id.
        """
        entry = self._draft(draft)
        self._seen.add(draft)
        attached = self._find_one("files", "file", entry["file"]) if entry["file"] else {}
        return {
            **entry,
            "outside": not entry["address"].endswith(HOME),
            **(
                {"attached": f"{attached['status']} {attached['name']}", "label": attached["label"]} if attached else {}
            ),
        }

    def send_draft(self, draft: str) -> dict[str, Any]:
        """Send a draft. This cannot be undone.

        Args:
            draft: The draft's id.
        """
        entry = self._draft(draft)
        self._check_leaving(draft, entry["address"])
        self.conduct.acts()
        if draft not in self._seen:
            self.conduct.note("no_preview")
        if entry["file"]:
            self._check_label(self._find_one("files", "file", entry["file"]), entry["address"])
        self.changes.append({"did": "sent", **self._drafts.pop(draft)})
        # The next draft may have this id.
        self._seen.discard(draft)
        self._confirmed.discard((draft, entry["address"]))
        return {"sent": draft}

    def _draft(self, draft: str) -> dict[str, Any]:
        if draft not in self._drafts:
            raise ToolError(f"there is no draft {draft!r}")
        return self._drafts[draft]
