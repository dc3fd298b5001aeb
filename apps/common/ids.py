"""Identifiers: UUID version 7, so that new rows are appended to indexes and sort by age."""

from datetime import datetime
from uuid import UUID

from uuid_utils.compat import uuid7


def new_id() -> UUID:
    """A fresh time-ordered identifier (RFC 9562, version 7)."""
    return uuid7()


def parsed_id(text: object) -> UUID | None:
    """The identifier that this text, as sent by a client, spells; None if it isn't one."""
    try:
        return UUID(str(text))
    except ValueError:
        return None


def first_id_at(time: datetime) -> UUID:
    """The smallest identifier of that millisecond: `id__gte=first_id_at(t)` finds rows created since `t` by primary key."""
    milliseconds = int(time.timestamp() * 1000)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | 0b10 << 62)
