"""Prepares the folders of a stack, and says plainly why it cannot."""

import os
import shutil
import stat
from pathlib import Path

from apps.common.stack.errors import StackError
from apps.common.stack.paths import StackPaths

NEEDED_BYTES = 500 * 1024**2


def prepare(paths: StackPaths) -> None:
    """Make the data, log and socket folders.

    Raises StackError when the disk is full or read-only, or a folder belongs to someone else.
    """
    try:
        for folder in (paths.var, paths.logs, paths.valkey_data):
            folder.mkdir(parents=True, exist_ok=True)
        paths.runtime.mkdir(mode=0o711, exist_ok=True)
    except OSError as error:
        raise StackError(f"Cannot make {error.filename}: {error.strerror}. Is the disk writable by you?") from error
    _refuse_foreign(paths.runtime)
    # Others may pass through (the database's user must), but list nothing; each socket has its own mode.
    paths.runtime.chmod(0o711)
    if not os.access(paths.var, os.W_OK):
        raise StackError(f"{paths.var} belongs to another user. Give it to yourself (chown) or set RETRACE_VAR.")
    free = shutil.disk_usage(paths.var).free
    if free < NEEDED_BYTES:
        raise StackError(
            f"The disk that holds {paths.var} has {free / 1024**2:.0f} MB left; Retrace needs "
            f"{NEEDED_BYTES / 1024**2:.0f} MB. Free some space, or set RETRACE_VAR to a folder on a larger disk."
        )


def _refuse_foreign(folder: Path) -> None:
    """The name of the socket folder can be guessed: use it only if we made it."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise StackError(f"{folder} exists and is not ours (owner uid {found.st_uid}). Remove it, then try again.")
