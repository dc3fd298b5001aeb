"""Rows that a model's chat template refuses: left out and told while they are few, the end of the run where they are many.

Real data hold an odd row here and there, and hours of training should not end with one. Where a template refuses more than a few, it does
not fit the data, and a model trained on the rest would have learned something else than its owner thinks.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from contract.events import Warned
from trainer.failures import DataFailure

MOST = 0.1
"""Of all rows."""
NAMED = 5
"""Rows whose reasons are told."""

Row = TypeVar("Row")
Result = TypeVar("Result")


class Refusal(NamedTuple):
    """One row that cannot be rendered."""

    number: int
    """Among the rows, from 1."""
    reason: str


@dataclass
class Refusals:
    """Those of one data file."""

    name: str
    """Of the file."""
    found: list[Refusal] = field(default_factory=list)

    def rendered(self, rows: Iterable[Row], render: Callable[[Row], Result]) -> Iterator[Result]:
        """What each row renders to; a row for which `render` raises is noted, and passed over."""
        for number, row in enumerate(rows, start=1):
            try:
                result = render(row)
            except Exception as error:  # a template may raise anything: TemplateError, TypeError, …
                self.found.append(Refusal(number, str(error) or type(error).__name__))
            else:
                yield result

    def warning(self, *, of: int) -> Warned | None:
        """What to tell of them; None where there are none. Raises DataFailure where they are more than MOST of all rows."""
        if not self.found:
            return None
        told = "; ".join(f"row {each.number}: {each.reason}" for each in self.found[:NAMED])
        more = f"; and {len(self.found) - NAMED} more" if len(self.found) > NAMED else ""
        message = (
            f"{self.name}: {len(self.found)} of {of} rows cannot be rendered through the chat template ({told}{more})."
        )
        if len(self.found) > MOST * of:
            raise DataFailure(
                message,
                advice=f"Up to {MOST:.0%} would be left out. Correct these rows, or choose a model whose template takes them.",
            )
        return Warned(f"{message} They are left out.", advice="Correct them and export the version again to use them.")
