"""Rows that a model's chat template refuses: a few are skipped and reported, many end the run.

Real data contains occasional odd rows, which shouldn't end hours of training. If a template refuses more than a few, it doesn't
fit the data, and a model trained on the rest wouldn't have learned what its owner expects.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from contract.events import Warned
from trainer.failures import DataFailure

MAX_REFUSED_SHARE = 0.1
"""Maximum share of refused rows."""
NAMED = 5
"""Number of rows whose reasons are reported."""

Row = TypeVar("Row")
Result = TypeVar("Result")


class Refusal(NamedTuple):
    """A row that can't be rendered."""

    number: int
    """Row number, from 1."""
    reason: str


@dataclass
class Refusals:
    """The refused rows of one data file."""

    name: str
    """Name of the file."""
    refused: list[Refusal] = field(default_factory=list)

    def rendered(self, rows: Iterable[Row], render: Callable[[Row], Result]) -> Iterator[Result]:
        """The rendered rows; a row for which `render` raises is recorded and skipped."""
        for number, row in enumerate(rows, start=1):
            try:
                result = render(row)
            except Exception as error:  # a template may raise anything: TemplateError, TypeError, …
                self.refused.append(Refusal(number, str(error) or type(error).__name__))
            else:
                yield result

    def warning(self, *, of: int) -> Warned | None:
        """A warning about them; None if there are none. Raises DataFailure if they're more than MAX_REFUSED_SHARE of all rows."""
        if not self.refused:
            return None
        reasons = "; ".join(f"row {refused.number}: {refused.reason}" for refused in self.refused[:NAMED])
        more = f"; and {len(self.refused) - NAMED} more" if len(self.refused) > NAMED else ""
        message = f"{self.name}: {len(self.refused)} of {of} rows cannot be rendered through the chat template ({reasons}{more})."
        if len(self.refused) > MAX_REFUSED_SHARE * of:
            raise DataFailure(
                message,
                advice=f"Up to {MAX_REFUSED_SHARE:.0%} would be left out. Correct these rows, or choose a model whose template takes them.",
            )
        return Warned(f"{message} They are left out.", advice="Correct them and export the version again to use them.")
