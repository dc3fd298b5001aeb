"""Spreadsheets."""

from typing import Any

from trainer.environments.office.workplace.room import Room
from trainer.environments.tools import ToolError


class Sheets(Room):
    """Tools on tables with named columns and numbered rows."""

    def find_sheets(self, name: str) -> list[dict[str, Any]]:
        """List spreadsheets by name.

        Args:
            name: Words of the name.
        """
        hits = [sheet for sheet in self._state["sheets"] if name.strip().lower() in sheet["name"].lower()]
        if not hits:
            raise ToolError(f"no sheet is called {name!r}")
        return [{"sheet": sheet["sheet"], "name": sheet["name"], "columns": sheet["columns"]} for sheet in hits]

    def read_sheet(self, sheet: str, offset: int = 0) -> dict[str, Any]:
        """Show the rows of a spreadsheet, a page at a time.

        Args:
            sheet: The sheet's id.
            offset: Where to go on in a sheet that was cut.
        """
        entry = self._find_one("sheets", "sheet", sheet)
        rows = [
            {"row": number, **dict(zip(entry["columns"], row, strict=True))}
            for number, row in enumerate(entry["rows"], 1)
        ]
        return self._cut(rows, offset)

    def write_cell(self, sheet: str, row: int, column: str, value: str) -> dict[str, Any]:
        """Replace a cell.

        Args:
            sheet: The sheet's id.
            row: The row's number, from 1.
            column: The column's name.
            value: What the cell should say.
        """
        entry = self._find_one("sheets", "sheet", sheet)
        if column not in entry["columns"]:
            raise ToolError(f"column must be one of {', '.join(entry['columns'])}, got {column!r}")
        if not 1 <= row <= len(entry["rows"]):
            raise ToolError(f"row must be from 1 to {len(entry['rows'])}, got {row}")
        self.conduct.acts()
        entry["rows"][row - 1][entry["columns"].index(column)] = value
        self.changes.append(
            {"did": "set", "sheet": sheet, "row": row, "column": column, "value": value.strip().lower()}
        )
        return {"set": value}
