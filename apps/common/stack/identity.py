"""The user that PostgreSQL runs as. It refuses root, so a root supervisor runs it as an ordinary user."""

import ctypes
import os
import pwd
import signal
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from apps.common.stack.errors import StackError
from contract.lifetime import die_with_parent, prctl

_PR_SET_KEEPCAPS = 8
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAP_DAC_OVERRIDE = 1
_CAPABILITY_VERSION_3 = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Identity:
    """A user for a child process. `passes_closed_folders` lets it access a checkout below a folder such as /root."""

    uid: int
    gid: int
    passes_closed_folders: bool = False

    @classmethod
    def for_postgres(cls, *, data: Path, programs: Path) -> Self:
        """The current user; for root, the owner of the data folder, or `nobody` if there is no data yet."""
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid())
        owner = data.stat().st_uid if data.exists() else 0
        try:
            user = pwd.getpwuid(owner) if owner else pwd.getpwnam("nobody")
        except KeyError:
            raise StackError(
                "PostgreSQL refuses to run as root, and there is no user 'nobody' to run it as. "
                "Run this as an ordinary user, or create that user."
            ) from None
        closed = not all(_open_to_others(path) for path in (data.parent, programs))
        return cls(user.pw_uid, user.pw_gid, passes_closed_folders=closed)

    @property
    def is_me(self) -> bool:
        return self.uid == os.geteuid()

    def own(self, folder: Path) -> None:
        """Create `folder`, accessible only to this user."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.is_me:
            os.chown(folder, self.uid, self.gid)

    def before_exec(self, signum: signal.Signals) -> Callable[[], None]:
        """A `preexec_fn`: switch to this user, then tie the process to the caller (setuid would clear that)."""
        parent = os.getpid()

        def prepare() -> None:
            if not self.is_me:
                self._switch_user()
            die_with_parent(signum, parent=parent)

        return prepare

    def _switch_user(self) -> None:
        if self.passes_closed_folders:
            prctl(_PR_SET_KEEPCAPS, 1)
        os.setgroups([])
        os.setgid(self.gid)
        os.setuid(self.uid)
        if self.passes_closed_folders:
            _keep_only(_CAP_DAC_OVERRIDE)


def _open_to_others(path: Path) -> bool:
    """Whether other users can read `path`, judging by its mode and its parents' modes."""
    may_enter = all(folder.stat().st_mode & stat.S_IXOTH for folder in path.resolve().parents)
    mode = path.stat().st_mode
    return bool(may_enter and mode & stat.S_IROTH and mode & stat.S_IXOTH)


def _keep_only(capability: int) -> None:
    """Drop all capabilities but one, and keep that across exec (as an ambient capability)."""
    bit = 1 << capability
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    # effective, permitted, inheritable for capabilities 0–31, then the same for 32–63
    sets = (ctypes.c_uint32 * 6)(bit, bit, bit, 0, 0, 0)
    if _libc.capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset failed")
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability)
