"""Where a step's memory comes from."""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Names of settings in glibc's malloc.h."""
KEPT_BLOCK = 32 << 20
KEPT_IN_ALL = 128 << 20


def keep_freed_memory() -> None:
    """Keep what tensors give back for those that come next. A step frees and takes the same blocks again and again, and C's library gives larger
    ones back to the system each time, which must then clear them anew: for small models a tenth of a step on the CPU.

    Blocks above 32 MiB, and what is free beyond 128 MiB in one piece, still go back. Does nothing where the C library has no such settings.
    """
    try:
        setting = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc: another system, or musl
        return
    setting(M_MMAP_THRESHOLD, KEPT_BLOCK)
    setting(M_TRIM_THRESHOLD, KEPT_IN_ALL)
