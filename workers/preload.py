"""Imports done before a worker's pool processes are forked, so that their first task isn't delayed."""

import gc


def load() -> None:
    """Import what tasks need, and freeze it for the garbage collector."""
    import pyarrow
    from django.urls import get_resolver

    get_resolver().reverse_dict  # noqa: B018  # news of a task renders links
    pyarrow.array([""])  # imports pandas, which takes a second
    gc.collect()
    # Repeated garbage collection over these objects took a quarter of the time of freezing a version.
    gc.freeze()
