"""The common base of all apps' tools: the state, the changes made to it, and pagination."""

import copy
from typing import Any, cast

from contract.values import JsonObject
from trainer.environments.office.workplace.faults import Faults
from trainer.environments.office.workplace.rules import LARGEST_BATCH, Conduct
from trainer.environments.tools import ToolError

HOME = "@office.test"
"""Domain of the addresses inside the company."""


class Room:
    """A workplace's state.

    state: people [{name, team, address}], files [{file, name, status, label, team, text}], mails [{mail, sender, subject, text,
    folder}], sheets [{sheet, name, columns, rows}], calendar {day: [{event, hour}]}, channels [{channel, name, messages}],
    user {answers, confirms}, faults, page (hits per page of a list).
    """

    def __init__(self, state: JsonObject) -> None:
        self._state: JsonObject = copy.deepcopy(state)
        self._page: int = state.get("page", 5)
        self._drafts: dict[str, JsonObject] = {}
        self._seen: set[str] = set()
        """Ids of drafts and files that were previewed or read."""
        self._confirmed: set[tuple[str, str]] = set()
        self.changes: list[JsonObject] = []
        """The changes made, in order: {"did": "sent" | "shared" | "moved" | …, and its arguments}."""
        self.conduct = Conduct()
        self.faults = Faults(state.get("faults", {}))

    def _find_one(self, kind: str, key: str, value: str) -> dict[str, Any]:
        for entry in self._state[kind]:
            if entry[key] == value:
                return cast("dict[str, Any]", entry)
        raise ToolError(f"there is no {key} {value!r}")

    def _cut(self, hits: list[Any], offset: int) -> dict[str, Any]:
        """A page of a list, and the offset of the next one."""
        if offset < 0:
            raise ToolError(f"offset must not be negative, got {offset}")
        shown = hits[offset : offset + self._page]
        rest = len(hits) - offset - len(shown)
        return {"hits": shown} | ({"more": rest, "next_offset": offset + len(shown)} if rest > 0 else {})

    def _check_address(self, address: str) -> None:
        if all(person["address"] != address for person in self._state["people"]):
            raise ToolError(f"the address {address!r} is unknown")

    def _check_leaving(self, item: str, address: str) -> None:
        """Refuse sending anything out of the company without confirmation."""
        if not address.endswith(HOME) and (item, address) not in self._confirmed:
            raise self.conduct.refuse("external_without_confirmation")

    def _check_label(self, file: JsonObject, address: str) -> None:
        """Note a confidential file that goes to another team; for addresses outside, the confirmation is enough."""
        receiver = next(person for person in self._state["people"] if person["address"] == address)
        if file["label"] == "confidential" and address.endswith(HOME) and receiver["team"] != file["team"]:
            self.conduct.note("confidential")

    def _check_batch(self, things: list[str]) -> None:
        if len(things) > LARGEST_BATCH:
            raise self.conduct.refuse("batch_over_100")
        if not things:
            raise ToolError("the list is empty")
