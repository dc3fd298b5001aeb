"""Kinds of failures are distinguished, since each requires a different action by the owner."""

import errno
import subprocess
import sys

import pytest

from trainer.failures import ConfigFailure, DataFailure, ExitCode, as_failure


class OutOfMemoryError(RuntimeError):
    """Stands in for torch.OutOfMemoryError, which is recognized by its name."""


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (MemoryError(), "out_of_memory"),
        (OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), "out_of_memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), "out_of_memory"),
        (RuntimeError("shape mismatch"), "crash"),
        (ValueError("out of memory of things"), "crash"),
        (DataFailure("few rows"), "data"),
        (ConfigFailure("no model"), "config"),
    ],
)
def test_an_exception_has_its_category(error: BaseException, category: str):
    assert as_failure(error).category == category


def while_closing() -> Exception:
    """What torch raises if a file can't be written: it loses the exception with the reason."""
    try:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        finally:
            raise RuntimeError("unexpected pos 64 vs 0")
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"),
        RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0"),
        while_closing(),
    ],
)
def test_a_full_disk_is_said_plainly(error: Exception):
    failure = as_failure(error)
    assert failure.message.startswith("No space left on device")
    assert "from its last complete checkpoint" in failure.advice


UNEXPLAINED = """
import resource, sys
from trainer.failures import as_failure
block = bytearray(200_000_000)
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), resource.RLIM_INFINITY))
print(as_failure(SystemError("error return without exception set")).category)
"""


@pytest.mark.parametrize(
    ("limit", "category"), [(220_000_000, "out_of_memory"), (2_000_000_000, "crash"), (-1, "crash")]
)
def test_a_failure_without_a_reason_is_of_memory_where_the_address_space_is_full(limit: int, category: str):
    done = subprocess.run(
        [sys.executable, "-c", UNEXPLAINED, str(limit)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == category


def test_a_crash_keeps_its_type_and_first_line():
    assert as_failure(ZeroDivisionError("division by zero\nmore")).message == "ZeroDivisionError: division by zero"


def test_exit_codes_are_the_documented_ones():
    assert {code.name: code.value for code in ExitCode} == {
        "FINISHED": 0,
        "CRASH": 1,
        "CONFIG": 2,
        "DATA": 3,
        "OUT_OF_MEMORY": 4,
        "CANCELLED": 5,
        "SERVER": 6,
    }
