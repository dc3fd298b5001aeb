"""The rows of datasets: what a frozen version's files hold, what REST exports, what the trainer and TRL take."""

from collections.abc import Mapping

from contract.rows.preference import PreferenceRow, StepPreferenceRow
from contract.rows.single import DemonstrationRow, ProcessLabelsRow, UnpairedRow

__all__ = ["ROWS", "DemonstrationRow", "PreferenceRow", "ProcessLabelsRow", "StepPreferenceRow", "UnpairedRow"]

ROWS: Mapping[str, type] = {
    "preference": PreferenceRow,
    "step_preferences": StepPreferenceRow,
    "steps": ProcessLabelsRow,
    "demonstrations": DemonstrationRow,
    "unpaired": UnpairedRow,
}
"""By the name of the row type."""
