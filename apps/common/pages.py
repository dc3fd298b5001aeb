"""Cursor pagination: no counts or offsets, so page 1,000 of a large table costs as much as page 1."""

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


MAX_BYTES = 16 << 20
"""Approximate maximum bytes of one API page. Some rows contain agents' input: a thousand sessions could be 600 MB."""
OF_LISTS = ("cursor", "page_size", "format")
"""Query parameters of all lists."""
AT_ONCE = 101
"""Rows fetched before measuring: a default page, plus the row that shows whether there is another page."""


class ApiCursorPagination(CursorPagination):
    """Newest first. Ids are time-ordered, so one column is a total order. Pages of large rows are shorter. Unknown filters are refused."""

    ordering = "-pk"
    page_size = 100
    max_page_size = 1000
    page_size_query_param = "page_size"

    def get_page_size(self, request: Request) -> int:
        """Raises ValidationError if the size isn't a number, instead of silently ignoring it."""
        text = request.query_params.get(self.page_size_query_param)
        if text is None:
            return self.page_size
        if not text.isdecimal() or len(text) > 9 or int(text) == 0:
            problem = f"“{text[:60]}” isn't a page size; expected a whole number from 1 to {self.max_page_size:,}."
            raise ValidationError({self.page_size_query_param: [problem]})
        return min(int(text), self.max_page_size)

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any] | None:
        """Raises ValidationError."""
        if view is not None:
            _refuse_unknown_filters(request, view)
        self._rows: QuerySet[Any] = queryset
        measured: Any = _Measured(queryset, self)
        return super().paginate_queryset(measured, request, view)

    def decode_cursor(self, request: Request) -> Any:
        """Raises ValidationError, also for a position that these rows can't have."""
        try:
            cursor = super().decode_cursor(request)
            if cursor and cursor.position is not None:
                self._rows.filter(**{f"{self.ordering[0].lstrip('-')}__gt": cursor.position})  # lazy, no query yet
        except (NotFound, ValueError, DjangoValidationError):
            problem = "It's damaged, or belongs to another list. Leave it out, then follow `next`."
            raise ValidationError({"cursor": [problem]}) from None
        return cursor


def _refuse_unknown_filters(request: Request, view: Any) -> None:
    """Refuse parameters that the view doesn't declare with `extend_schema`: a misspelled filter would be ignored, and match everything.

    Raises ValidationError.
    """
    given = request.query_params.keys() - set(OF_LISTS)
    if not given:
        return
    declaration = getattr(view.get, "kwargs", {}).get("schema") or type(view.schema)
    schema = declaration()
    schema.view, schema.method = view, "GET"
    filters = [parameter.name for parameter in schema.get_override_parameters() if parameter.location == "query"]
    if unknown := sorted(given - set(filters)):
        known = f"known filters: {', '.join(filters)}" if filters else "this list has none"
        raise ValidationError({name: [f"There is no such filter; {known}."] for name in unknown})


class _Measured:
    """Rows for DRF's pagination, fetched a few at a time, so that no more than one page is loaded."""

    def __init__(self, rows: QuerySet[Any], pages: ApiCursorPagination) -> None:
        self._rows, self._pages = rows, pages

    def order_by(self, *fields: str) -> "_Measured":
        return _Measured(self._rows.order_by(*fields), self._pages)

    def filter(self, **conditions: Any) -> "_Measured":
        return _Measured(self._rows.filter(**conditions), self._pages)

    def __getitem__(self, window: slice) -> list[Any]:
        """If rows are too large, the page size is reduced; one extra row is included, as DRF expects."""
        items: list[Any] = []
        size = 0
        for start in range(window.start, window.stop, AT_ONCE):
            batch = list(self._rows[start : min(start + AT_ONCE, window.stop)])
            for row in batch:
                items.append(row)
                if size > MAX_BYTES:
                    self._pages.page_size = len(items) - 1
                    return items
                size += sum(len(repr(value)) for name, value in vars(row).items() if name[0] != "_")
            if len(batch) < AT_ONCE:
                break
        return items


class ShortPages(ApiCursorPagination):
    """Short pages, for rows of up to a million characters each."""

    max_page_size = 100


@dataclass(frozen=True)
class Page(Generic[M]):
    """A slice of rows with the cursors of the adjacent pages ("" if there is none)."""

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

    An invalid cursor, or one of another list, gives the first page: it's probably a truncated link, not an error.
    """
    backwards, position = _read(cursor, len(order))
    ordered = rows.order_by(*(_flip(field) for field in order) if backwards else order)
    if position is not None:
        try:
            ordered = ordered.filter(_after(order, position, backwards=backwards))
        except (ValueError, DjangoValidationError):
            return page_of(rows, order=order, size=size)
    items = list(ordered[: size + 1])
    more, items = len(items) > size, items[:size]
    if backwards:
        items.reverse()
    has_next = bool(items) and (more if not backwards else True)
    has_previous = bool(items) and (more if backwards else position is not None)
    return Page(
        rows=items,
        next=_write(order, items[-1], backwards=False) if has_next else "",
        previous=_write(order, items[0], backwards=True) if has_previous else "",
    )


def _flip(field: str) -> str:
    return field[1:] if field.startswith("-") else f"-{field}"


def _after(order: tuple[str, ...], position: list[Any], *, backwards: bool) -> Q:
    """Rows strictly beyond `position`: (a, b) > (x, y), written so that Postgres can use the index on the first column."""
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
