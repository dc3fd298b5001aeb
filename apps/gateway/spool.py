"""Calls kept in files while the database is down or their session's row is locked, and stored later."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import cast
from uuid import UUID

from django.core import serializers

from apps.common.outages import outage_of
from apps.common.query_time_limit import is_locked
from apps.gateway.call_storage import in_database, store
from apps.gateway.models import Call

FLUSH_SECONDS = 2.0
"""Interval between attempts to store the calls."""
logger = logging.getLogger(__name__)


class Spool:
    """A folder with one file per call, shared by the gateway's processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._may_have_calls = True
        """Whether calls may wait in files; initially those of a previous process."""
        self._flushing: asyncio.Task[None] | None = None

    async def add(self, call: Call) -> bool:
        """Write a call to a file, and start storing. Returns whether it's kept, and never raises: a recorder failure must not stop an agent."""
        if not await asyncio.to_thread(self._write, call):
            return False
        self._may_have_calls = True
        self.start_flush()
        return True

    def start_flush(self) -> None:
        """Store waiting calls in the background, if there may be any."""
        if self._may_have_calls and (self._flushing is None or self._flushing.done()):
            self._flushing = asyncio.create_task(self._flush())

    def _write(self, call: Call) -> bool:
        unfinished = self.folder / f"{call.id}.unfinished"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with unfinished.open("w") as file:
                file.write(serializers.serialize("json", [call], ensure_ascii=True))  # UTF-8 has no lone surrogates
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(self.folder / f"{call.id}.json")
        except OSError:
            logger.exception(
                "call %s of session %s is lost: no database, and no room for a file", call.id, call.session_id
            )
            with suppress(OSError):
                unfinished.unlink()
            return False
        return True

    async def _flush(self) -> None:
        while self._may_have_calls:
            self._may_have_calls = False  # set again if calls are added from here on
            if not await asyncio.to_thread(self._has_calls):
                continue
            self._may_have_calls = True
            try:
                await in_database(store_spooled, self.folder)
            except Exception as error:
                if outage_of(error) is None:
                    logger.exception("calls in %s could not be stored", self.folder)
                await asyncio.sleep(FLUSH_SECONDS)

    def _has_calls(self) -> bool:
        return self.folder.is_dir() and any(self.folder.glob("*.json"))


def store_spooled(folder: Path) -> None:
    """Store the calls in files, oldest first, except those whose session is locked. If one can't be stored for a reason other than an outage, it's set
    aside and the reason logged.

    Raises what `outage_of` recognizes if some are left.
    """
    locked: dict[UUID, Exception] = {}
    for path in sorted(folder.glob("*.json")):
        call = None
        try:
            [deserialized] = serializers.deserialize("json", path.read_text())
            call = cast("Call", deserialized.object)
            if call.session_id not in locked:
                store(_with_parent(call), is_free=False)
                path.unlink(missing_ok=True)
        except FileNotFoundError:  # another process was faster
            continue
        except Exception as error:
            if call is not None and is_locked(error):
                locked[call.session_id] = error
            elif outage_of(error) is not None:
                raise
            else:
                logger.exception("%s can't be stored", path)
                path.rename(path.with_suffix(".refused"))
    for refusal in locked.values():
        raise refusal


def _with_parent(call: Call) -> Call:
    """Remove the reference to a parent whose file was lost."""
    if call.parent_id and not Call.objects.filter(pk=call.parent_id).exists():
        call.parent_id, call.join = None, ""
    return call
