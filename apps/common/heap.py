"""What a process holds from its start until its end."""

import gc


def exempt_from_collection() -> None:
    """Exempt all current objects from garbage collection: scanning a process's modules takes a sixth of a second, during which all its requests wait."""
    gc.collect()
    gc.freeze()
