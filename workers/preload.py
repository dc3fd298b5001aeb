"""What a worker loads before its pool processes are forked, so that none of them does it in the middle of its first task."""

import gc


def load() -> None:
    """Load what tasks would come to need, and take all of it for permanent."""
    import pyarrow
    from django.urls import get_resolver

    get_resolver().reverse_dict  # noqa: B018  # news of a task renders links
    pyarrow.array([""])  # looks for pandas, which takes a second
    gc.collect()
    # Looking for garbage among all this again and again took a quarter of the time of freezing a version.
    gc.freeze()
