"""The rows of datasets: in a frozen version's files, in REST exports, and as input of the trainer and TRL."""

from collections.abc import Mapping
from typing import Any

from contract.rows.preference import PreferenceRow, StepPreferenceRow
from contract.rows.single import DemonstrationRow, ProcessLabelsRow, UnpairedRow

__all__ = ["ROWS", "DemonstrationRow", "PreferenceRow", "ProcessLabelsRow", "StepPreferenceRow", "UnpairedRow"]

ROWS: Mapping[str, type[Any]] = {
    "preference": PreferenceRow,
    "step_preferences": StepPreferenceRow,
    "steps": ProcessLabelsRow,
    "demonstrations": DemonstrationRow,
    "unpaired": UnpairedRow,
}
"""Row class by name of the row type."""
