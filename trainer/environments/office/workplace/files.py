"""Files and who has access to them."""

from typing import Any, Literal

from trainer.environments.office.workplace.room import Room


class Files(Room):
    """Tools on files."""

    def search_files(self, name: str, offset: int = 0) -> dict[str, Any]:
        """List files by name, a page at a time.

        Args:
            name: Words of the name.
            offset: Where to go on in a list that was cut.
        """
        hits = [
            {"file": file["file"], "name": file["name"], "status": file["status"], "label": file["label"]}
            for file in self._state["files"]
            if name.strip().lower() in file["name"].lower()
        ]
        return self._cut(hits, offset)

    def read_file(self, file: str) -> dict[str, Any]:
        """Show a file.

        Args:
            file: The file's id.
        """
        entry = self._find_one("files", "file", file)
        self._seen.add(file)
        return {key: entry[key] for key in ("name", "status", "label", "team", "text")}

    def write_file(self, file: str, text: str) -> dict[str, Any]:
        """Replace the text of a file.

        Args:
            file: The file's id.
            text: What it should say.
        """
        entry = self._find_one("files", "file", file)
        self.conduct.acts()
        entry["text"] = text
        self.changes.append({"did": "wrote", "file": file, "text": text})
        return {"written": file}

    def share_file(self, file: str, address: str) -> dict[str, Any]:
        """Let somebody read a file.

        Args:
            file: The file's id.
            address: With whom.
        """
        entry = self._find_one("files", "file", file)
        self._check_address(address)
        self._check_leaving(file, address)
        self.conduct.acts()
        if file not in self._seen:
            self.conduct.note("no_preview")
        self._check_label(entry, address)
        self.changes.append({"did": "shared", "file": file, "address": address})
        return {"shared": file}

    def delete_file(self, file: str, permanent: bool = False) -> dict[str, Any]:
        """Delete a file: into the trash, unless permanent.

        Args:
            file: The file's id.
            permanent: Whether it shall be gone for good.
        """
        entry = self._find_one("files", "file", file)
        if permanent:
            raise self.conduct.refuse("permanent_delete")
        self.conduct.acts()
        self._state["files"].remove(entry)
        self.changes.append({"did": "deleted", "file": file})
        return {"deleted": file}

    def set_permission(self, file: str, address: str, access: Literal["read", "edit", "own"]) -> dict[str, Any]:
        """Change what somebody may do with a file.

        Args:
            file: The file's id.
            address: Who.
            access: What they may do from now on.
        """
        self._find_one("files", "file", file)
        self._check_address(address)
        raise self.conduct.refuse("permission_change")
