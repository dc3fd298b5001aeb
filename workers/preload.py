"""Imports done before a worker's pool processes are forked, so that their first task isn't delayed."""

from apps.common import heap


def load() -> None:
    """Import what tasks need, and freeze it for the garbage collector."""
    import pyarrow
    from django.urls import get_resolver

    get_resolver().reverse_dict  # noqa: B018  # live updates from tasks render links
    pyarrow.array([""])  # imports pandas, which takes a second
    heap.exempt_from_collection()  # collecting them took a quarter of the time of freezing a version
