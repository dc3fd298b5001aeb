"""Reasons why an archive can't be imported, or a workspace can't be exported."""


class TransferRefused(Exception):
    """The message says what was found, what was expected, and what to do."""


class BadArchive(TransferRefused):
    """The file isn't an archive that this installation can read."""

    def __init__(self, location: str, actual: str, expected: str) -> None:
        super().__init__(f"{location}: {actual.rstrip('.')}. Expected: {expected.rstrip('.')}.")
