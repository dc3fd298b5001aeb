"""The inside of the sandbox: a separate program that confines itself, then runs untrusted code.

`sandbox.py` starts it with an empty environment. It reads a request from stdin, gives up everything it will not need (see `lock_down`),
says so in its first line, calls the function once for each list of arguments, and writes one line of JSON for each call. It knows the
arguments but not the expected answers, so all that hostile code can do is answer. It never starts another program, and opens
no file once confined: modules that code may import are loaded before.
"""

import builtins
import contextlib
import copy
import ctypes
import io
import json
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

IMPORTABLE = (
    "abc array base64 bisect calendar cmath collections copy dataclasses datetime decimal enum fractions functools hashlib heapq "
    "itertools json math numbers operator random re statistics string struct textwrap types typing unicodedata"
)
PRINTED_CHARACTERS = 2000
NOBODY = 65534

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWNET = 1 << 17, 1 << 26, 1 << 27, 1 << 28, 1 << 30
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 32, 1 << 14, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
SECCOMP_MODE_FILTER = 2


class Machine(NamedTuple):
    """System call numbers of a processor architecture."""

    audit: int
    pivot_root: int
    futex: int
    allowed: dict[str, int]


MACHINES = {
    "x86_64": Machine(
        audit=0xC000003E,
        pivot_root=155,
        futex=202,
        allowed={
            "read": 0,
            "write": 1,
            "close": 3,
            "fstat": 5,
            "lseek": 8,
            "mmap": 9,
            "mprotect": 10,
            "munmap": 11,
            "brk": 12,
            "rt_sigprocmask": 14,
            "rt_sigreturn": 15,
            "sched_yield": 24,
            "mremap": 25,
            "madvise": 28,
            "getpid": 39,
            "exit": 60,
            "gettimeofday": 96,
            "gettid": 186,
            "restart_syscall": 219,
            "clock_gettime": 228,
            "clock_getres": 229,
            "exit_group": 231,
            "getrandom": 318,
        },
    ),
    "aarch64": Machine(
        audit=0xC00000B7,
        pivot_root=41,
        futex=98,
        allowed={
            "read": 63,
            "write": 64,
            "close": 57,
            "fstat": 80,
            "lseek": 62,
            "mmap": 222,
            "mprotect": 226,
            "munmap": 215,
            "brk": 214,
            "rt_sigprocmask": 135,
            "rt_sigreturn": 139,
            "sched_yield": 124,
            "mremap": 216,
            "madvise": 233,
            "getpid": 172,
            "exit": 93,
            "gettimeofday": 169,
            "gettid": 178,
            "restart_syscall": 128,
            "clock_gettime": 113,
            "clock_getres": 114,
            "exit_group": 94,
            "getrandom": 278,
        },
    ),
}
"""All that a computation needs. No open, no socket, no fork, no exec, no kill, no ptrace, no sleep: those fail with EPERM."""
WAKING = (1, 10)
"""Only FUTEX_WAKE and FUTEX_WAKE_BITSET, which C libraries call even with no waiters. A wait in a single thread would never end and
would occupy a slot that others need; this way, it crashes immediately."""


def main() -> None:
    request = json.loads(sys.stdin.buffer.read())
    answers = os.fdopen(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    for name in IMPORTABLE.split():
        __import__(name)
    try:
        walls = lock_down(cpu_seconds=request["cpu_seconds"], memory_mb=request["memory_mb"])
    except OSError as error:
        write_line(answers, {"refused": str(error)})
        return
    write_line(answers, {"walls": walls})
    run(request, answers)
    os._exit(0)


def lock_down(*, cpu_seconds: int, memory_mb: int) -> list[str]:
    """Irrevocably give up files, network, other processes, privileges, and all but a limited amount of memory and time.

    The system call filter and the limits are required, or OSError is raised. Namespaces are a second layer, which
    not every container allows. Returns the names of the layers in place.
    """
    machine = MACHINES.get(platform.machine())
    if machine is None or sys.platform != "linux":
        raise OSError(f"no system call filter is known for {sys.platform} on {platform.machine()}")
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    walls = ["limits", "filter"]
    with contextlib.suppress(OSError):
        enter_namespaces(libc, machine)
        walls.append("namespaces")
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    checked(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")  # after the change of user, which resets it
    if os.getppid() not in (parent, 0):
        raise OSError("the parent process is gone")
    checked(libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl")
    memory = memory_mb * 1024 * 1024
    for limit, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 3),
    ):
        hard_limit = resource.getrlimit(limit)[1]
        new_limit = value if hard_limit == resource.RLIM_INFINITY else min(value, hard_limit)
        resource.setrlimit(limit, (new_limit, new_limit))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    install_filter(libc, machine)
    return walls


def enter_namespaces(libc: ctypes.CDLL, machine: Machine) -> None:
    """Enter namespaces with an empty, read-only file system, no network but a loopback that is down, and no shared memory. Raises OSError."""
    uid, gid = os.getuid(), os.getgid()
    namespaces = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET
    checked(libc.unshare(namespaces if uid == 0 else namespaces | CLONE_NEWUSER), "unshare")
    if uid != 0:
        for file, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{file}", "w") as mapping:
                mapping.write(text)
    checked(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "mount")
    path, flags = b"/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC
    checked(libc.mount(b"none", path, b"tmpfs", flags, b"size=4k,mode=555"), "mount")
    os.chdir(path)
    checked(libc.syscall(machine.pivot_root, b".", b"."), "pivot_root")  # the old root now lies on top of the new one
    checked(libc.umount2(b".", MNT_DETACH), "umount2")
    os.chdir("/")
    checked(libc.mount(b"none", b"/", None, flags | MS_REMOUNT | MS_RDONLY, None), "mount")


def install_filter(libc: ctypes.CDLL, machine: Machine) -> None:
    """Install a seccomp filter (classic BPF): a call that isn't allowed fails with EPERM; one in another calling convention kills the process."""
    load, equal, at_least, mask, answer = 0x20, 0x15, 0x35, 0x54, 0x06
    kill, refuse, allow = 0x80000000, 0x00050001, 0x7FFF0000
    program = [(load, 0, 0, 4), (equal, 1, 0, machine.audit), (answer, 0, 0, kill), (load, 0, 0, 0)]
    program += [(at_least, 0, 1, 0x40000000), (answer, 0, 0, kill)]  # x86's x32 calls: the same numbers with a bit set
    for number in machine.allowed.values():
        program += [(equal, 0, 1, number), (answer, 0, 0, allow)]
    second_argument, without_flags = (load, 0, 0, 24), (mask, 0, 0, 0x7F)
    program += [(equal, 0, 4 + len(WAKING), machine.futex), second_argument, without_flags]
    program += [(equal, len(WAKING) - index, 0, call) for index, call in enumerate(WAKING)]
    program += [(answer, 0, 0, refuse), (answer, 0, 0, allow)]
    program.append((answer, 0, 0, refuse))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    checked(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0), "seccomp")
    try:
        os.stat("/")
    except PermissionError:
        return
    raise OSError("the system call filter isn't effective")


def checked(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def run(request: dict[str, Any], answers: io.TextIOBase) -> None:
    """Load the source and call the function, once for each list of arguments."""
    printed = Printed()
    sys.stdout = sys.stderr = printed
    scope: dict[str, Any] = {"__name__": "solution", "__builtins__": builtins}
    loaded = attempt(lambda: exec(compile(request["source"], "<solution>", "exec"), scope))
    for arguments in request["calls"]:
        printed.clear()
        if "error" in loaded:
            result = loaded
        elif not callable(function := scope.get(request["function"])):
            result = {"error": f"NameError: there is no function {request['function']}"}
        else:
            result = attempt(partial(function, *copy.deepcopy(arguments)))
        write_line(answers, {**result, **({"printed": text} if (text := printed.text()) else {})})


def attempt(action: Callable[[], Any]) -> dict[str, Any]:
    """{"value": …} as JSON, or {"error": …} with the line of the solution where it was raised."""
    try:
        value = action()
        json.dumps(value)
        return {"value": value}
    except BaseException as error:  # SystemExit and KeyboardInterrupt are answers too
        line, trace = None, error.__traceback__
        while trace is not None:
            line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == "<solution>" else line
            trace = trace.tb_next
        if isinstance(error, SyntaxError):
            line = error.lineno
        text = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
        return {"error": text[:300] + (f" (line {line})" if line else "")}


class Printed(io.TextIOBase):
    """Captures the beginning of the output."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._parts: list[str] = []
        self._left = PRINTED_CHARACTERS

    def write(self, text: str) -> int:
        if self._left > 0:
            self._parts.append(text[: self._left])
            self._left -= len(text)
        return len(text)

    def text(self) -> str:
        return "".join(self._parts)


def write_line(answers: Any, line: dict[str, Any]) -> None:
    answers.write(json.dumps(line) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
