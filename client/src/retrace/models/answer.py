"""Base classes of all responses."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from retrace.core.request import Progress


class Answer(BaseModel):
    """A response. Fields unknown to this version are kept and available under their names."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Waitable(Answer):
    """An operation that takes time. `client.wait` polls it until `is_over`."""

    @property
    def path(self) -> str:
        """Path for polling, relative to /api/v1."""
        raise NotImplementedError

    @property
    def is_over(self) -> bool:
        """Whether it has ended, successfully or not."""
        raise NotImplementedError

    @property
    def problem(self) -> str:
        """Why it failed or was cancelled; empty otherwise."""
        raise NotImplementedError

    @property
    def progress(self) -> Progress:
        """Its progress."""
        raise NotImplementedError
