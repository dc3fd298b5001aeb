"""Making a version's rows: one module per row type, plus shared code.

A row type is declared by `row_type.RowType`. To add one, write its module and register it here; recipes, forms, REST, cards, files, and export follow.
"""

from apps.datasets.rows.demonstration import DEMONSTRATION
from apps.datasets.rows.preference import PREFERENCE
from apps.datasets.rows.row_type import RowType
from apps.datasets.rows.step_preference import STEP_PREFERENCE
from apps.datasets.rows.steps import STEPS
from apps.datasets.rows.unpaired import UNPAIRED

ROW_TYPES: dict[str, RowType] = {
    row_type.name: row_type for row_type in (PREFERENCE, STEP_PREFERENCE, STEPS, DEMONSTRATION, UNPAIRED)
}
