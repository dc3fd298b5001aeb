"""What all answers have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from retrace.core.request import Progress


class Answer(BaseModel):
    """What the server said. Fields that this version doesn't know yet are kept and can be read by their names."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Waitable(Answer):
    """Something that takes a while. `client.wait` reads it again until `is_over`."""

    @property
    def path(self) -> str:
        """Where to read it again, below /api/v1."""
        raise NotImplementedError

    @property
    def is_over(self) -> bool:
        """Whether it ended, well or not."""
        raise NotImplementedError

    @property
    def problem(self) -> str:
        """Why it failed or was cancelled; empty where it did neither."""
        raise NotImplementedError

    @property
    def progress(self) -> Progress:
        """How far it is."""
        raise NotImplementedError
