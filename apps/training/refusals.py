"""Reasons why a run can't be launched, each with its own class and advice."""

from __future__ import annotations

from contract.configs import InvalidConfig


class LaunchRefused(Exception):
    """The run can't start. `field` is what to change."""

    field = ""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field or self.field


class SettingsRefused(LaunchRefused):
    """Some settings are invalid; `problems` lists them by path."""

    field = "config"

    def __init__(self, invalid: InvalidConfig) -> None:
        super().__init__(invalid.message)
        self.problems = invalid.problems


class UnknownChoice(LaunchRefused):
    """There is no such preset, method or algorithm."""


class VersionMissing(LaunchRefused):
    """The algorithm requires a dataset version."""

    field = "version"


class VersionUnused(LaunchRefused):
    """The algorithm learns from its own rollouts, so it takes no version."""

    field = "version"


class NotFrozen(LaunchRefused):
    """Only a frozen version can be trained on."""

    field = "version"


class WrongRows(LaunchRefused):
    """The algorithm can't train on the version's row type."""

    field = "version"


class SplitEmpty(LaunchRefused):
    """The version has no training rows."""

    field = "version"


class DataTooSmall(LaunchRefused):
    """There are fewer training rows than one optimizer step needs."""

    field = "version"


class BaseMissing(LaunchRefused):
    """The algorithm requires a base model."""

    field = "base"


class NotTrainable(LaunchRefused):
    """The base has no trainable weights."""

    field = "base"


class FolderMissing(LaunchRefused):
    """The base's folder is outside the folder of models."""

    field = "base"
