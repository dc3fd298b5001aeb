"""Cursor pages: no counts and no offsets, so page 1,000 of a big table costs what page 1 does."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.core import signing
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db.models import Model, Q, QuerySet
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request

M = TypeVar("M", bound=Model)


MOST_BYTES = 16 << 20
"""Of the rows of one page over the API, about. Some hold what agents sent: a thousand sessions could be 600 MB."""
AT_ONCE = 101
"""Rows that are fetched before they're measured: a page of the usual size, and the row that says whether another one follows."""


class ApiCursorPagination(CursorPagination):
    """Newest first. Ids are time-ordered, so one column is a total order. A page ends sooner where its rows are large."""

    ordering = "-pk"
    page_size = 100
    max_page_size = 1000
    page_size_query_param = "page_size"

    def get_page_size(self, request: Request) -> int:
        """Raises ValidationError: a size that is no number would be left out without a word."""
        given = request.query_params.get(self.page_size_query_param)
        if given is None:
            return self.page_size
        if not given.isdecimal() or len(given) > 9 or int(given) == 0:
            problem = f"“{given[:60]}” isn't a page size; expected a whole number from 1 to {self.max_page_size:,}."
            raise ValidationError({self.page_size_query_param: [problem]})
        return min(int(given), self.max_page_size)

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any] | None:
        self._rows: QuerySet[Any] = queryset
        measured: Any = _Measured(queryset, self)
        return super().paginate_queryset(measured, request, view)

    def decode_cursor(self, request: Request) -> Any:
        """Raises ValidationError, for a position too that these rows cannot have."""
        try:
            cursor = super().decode_cursor(request)
            if cursor and cursor.position is not None:
                self._rows.filter(**{f"{self.ordering[0].lstrip('-')}__gt": cursor.position})  # asks nothing yet
        except (NotFound, ValueError, DjangoValidationError):
            problem = "It is damaged, or of another list. Leave it out, then follow `next`."
            raise ValidationError({"cursor": [problem]}) from None
        return cursor


class _Measured:
    """The rows of a list as DRF's pagination asks for them, a few at a time: what would be too much for one page isn't fetched."""

    def __init__(self, rows: QuerySet[Any], pages: ApiCursorPagination) -> None:
        self._rows, self._pages = rows, pages

    def order_by(self, *fields: str) -> "_Measured":
        return _Measured(self._rows.order_by(*fields), self._pages)

    def filter(self, **conditions: Any) -> "_Measured":
        return _Measured(self._rows.filter(**conditions), self._pages)

    def __getitem__(self, asked: slice) -> list[Any]:
        """Where they're too large, the page's size becomes smaller, and one row more comes along, as is asked for."""
        found: list[Any] = []
        size = 0
        for start in range(asked.start, asked.stop, AT_ONCE):
            some = list(self._rows[start : min(start + AT_ONCE, asked.stop)])
            for row in some:
                found.append(row)
                if size > MOST_BYTES:
                    self._pages.page_size = len(found) - 1
                    return found
                size += sum(len(repr(value)) for name, value in vars(row).items() if name[0] != "_")
            if len(some) < AT_ONCE:
                break
        return found


class ShortPages(ApiCursorPagination):
    """For rows that may each hold a million characters."""

    max_page_size = 100


@dataclass(frozen=True)
class Page(Generic[M]):
    """A slice of rows with the cursors of its neighbors ("" where there is none)."""

    rows: Sequence[M]
    next: str
    previous: str

    def __iter__(self) -> Any:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def page_of(
    rows: QuerySet[M],
    *,
    cursor: str = "",
    order: tuple[str, ...] = ("-pk",),
    size: int = 50,
) -> Page[M]:
    """The page of `rows` at `cursor`, in `order` (its last field must be unique; all fields run the same way and are never null).

    A cursor that does not verify, or is of another list, reads as the first page: it is a link somebody cut short, not an error.
    """
    backwards, position = _read(cursor, len(order))
    ordered = rows.order_by(*(_flip(field) for field in order) if backwards else order)
    if position is not None:
        try:
            ordered = ordered.filter(_after(order, position, backwards=backwards))
        except (ValueError, DjangoValidationError):
            return page_of(rows, order=order, size=size)
    found = list(ordered[: size + 1])
    more, found = len(found) > size, found[:size]
    if backwards:
        found.reverse()
    has_next = bool(found) and (more if not backwards else True)
    has_previous = bool(found) and (more if backwards else position is not None)
    return Page(
        rows=found,
        next=_write(order, found[-1], backwards=False) if has_next else "",
        previous=_write(order, found[0], backwards=True) if has_previous else "",
    )


def _flip(field: str) -> str:
    return field[1:] if field.startswith("-") else f"-{field}"


def _after(order: tuple[str, ...], position: list[Any], *, backwards: bool) -> Q:
    """Rows strictly beyond `position`: (a, b) > (x, y) spelled so that Postgres can use the index on its first column."""
    condition = Q()
    for depth, field in enumerate(order):
        step = Q(**{f"{earlier.lstrip('-')}": position[i] for i, earlier in enumerate(order[:depth])})
        falling = field.startswith("-") != backwards
        condition |= step & Q(**{f"{field.lstrip('-')}__{'lt' if falling else 'gt'}": position[depth]})
    return condition


def _write(order: tuple[str, ...], row: Model, *, backwards: bool) -> str:
    values = [getattr(row, field.lstrip("-")) for field in order]
    return signing.dumps(
        [
            "p" if backwards else "n",
            *(v.isoformat() if hasattr(v, "isoformat") else str(v) for v in values),
        ],
        salt="cursor",
    )


def _read(cursor: str, fields: int) -> tuple[bool, list[Any] | None]:
    if not cursor:
        return False, None
    try:
        direction, *values = signing.loads(cursor, salt="cursor")
    except (signing.BadSignature, ValueError):
        return False, None
    return (direction == "p", values) if len(values) == fields else (False, None)
