"""Why a run can't be launched. Each refusal has a name, and says what to change."""

from __future__ import annotations

from contract.configs import InvalidConfig


class LaunchRefused(Exception):
    """Why this run cannot start. `field` is what to change."""

    field = ""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field or self.field


class SettingsRefused(LaunchRefused):
    """Some settings are wrong; `problems` has each by its path."""

    field = "config"

    def __init__(self, invalid: InvalidConfig) -> None:
        super().__init__(invalid.message)
        self.problems = invalid.problems


class UnknownChoice(LaunchRefused):
    """There is no such preset, method or algorithm."""


class VersionMissing(LaunchRefused):
    """The algorithm learns from a dataset version."""

    field = "version"


class VersionUnused(LaunchRefused):
    """The algorithm learns from its own rollouts, and a version would say otherwise."""

    field = "version"


class NotFrozen(LaunchRefused):
    """Only a frozen version can be trained on."""

    field = "version"


class WrongRows(LaunchRefused):
    """The version's rows are of a type that the algorithm cannot read."""

    field = "version"


class SplitEmpty(LaunchRefused):
    """The version has no training rows."""

    field = "version"


class DataTooSmall(LaunchRefused):
    """Fewer training rows than one optimizer step takes."""

    field = "version"


class BaseMissing(LaunchRefused):
    """The algorithm needs a model to begin from."""

    field = "base"


class NotTrainable(LaunchRefused):
    """The base has no weights that a run could change."""

    field = "base"


class FolderMissing(LaunchRefused):
    """The base's folder is not where runs keep their models."""

    field = "base"
