"""Identifiers: UUID version 7, so that new rows land at the end of an index and sort by age."""

from uuid import UUID

from uuid_utils.compat import uuid7


def new_id() -> UUID:
    """A fresh time-ordered identifier (RFC 9562, version 7)."""
    return uuid7()
