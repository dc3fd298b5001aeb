"""Hostile code can compute and return values, but can't access files, the network, processes, or secrets, or exceed its share."""

import platform
import textwrap
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.processes import alive
from trainer.environments.code import sandbox
from trainer.environments.code.sandbox import NoIsolation, run_calls

SYSCALL = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\ndef f():\n    return [libc.syscall({}), ctypes.get_errno()]"


def answer(body: str, **limits: Any) -> Any:
    """The result of a function with this body, or the error that ends it."""
    (result,) = run_calls("def f():\n" + textwrap.indent(textwrap.dedent(body), "    "), "f", [[]], **limits).results
    return result.get("value", result.get("error"))


def jail_with(folder: Path, change: str) -> Path:
    """The jail as it would be on a machine that differs in one respect."""
    path = folder / "jail_elsewhere.py"
    path.write_text(
        f"import sys\nsys.path.insert(0, {str(sandbox.JAIL.parent)!r})\nimport jail\n{change}\njail.main()\n"
    )
    return path


def test_each_call_is_answered_in_order_and_what_is_printed_is_kept():
    ran = run_calls("def f(a, b=1):\n    print('dividing')\n    return a / b", "f", [[6, 3], [1, 0], [1]])
    assert ran.results == [
        {"value": 2.0, "printed": "dividing\n"},
        {"error": "ZeroDivisionError: division by zero (line 3)", "printed": "dividing\n"},
        {"value": 1.0, "printed": "dividing\n"},
    ]
    assert ran.walls[:2] == ["limits", "filter"]


def test_arguments_do_not_wander_from_one_call_to_the_next():
    ran = run_calls("def f(items):\n    items.append(1)\n    return items", "f", [[[]], [[]]])
    assert [result["value"] for result in ran.results] == [[1], [1]]


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("def f(:", "SyntaxError: invalid syntax (line 1)"),
        ("x = 1", "NameError: there is no function f"),
        ("def f():\n    return {1}", "TypeError: Object of type set is not JSON serializable"),
        ("raise SystemExit", "SystemExit:  (line 1)"),
        ("def f():\n    return f()", "RecursionError: maximum recursion depth exceeded (line 2)"),
        ("def f():\n    import requests", "ModuleNotFoundError: No module named 'requests' (line 2)"),
    ],
)
def test_what_goes_wrong_is_an_answer(source: str, error: str):
    assert run_calls(source, "f", [[]]).results == [{"error": error}]


@pytest.mark.parametrize(
    "body",
    [
        "return open('/etc/passwd').read()",
        "return open('/tmp/filled', 'w').write('x')",
        "import os\nreturn os.listdir('/')",
        "import os\nreturn os.stat('/')",
        "import os\nreturn os.fork()",
        "import os\nreturn os.execv('/bin/sh', ['sh'])",
        "import os\nreturn os.kill(os.getppid(), 9)",
        "import os\nreturn os.pipe()",
        "import os\nreturn os.memfd_create('m')",
        "import time\nreturn time.sleep(60)",
    ],
)
def test_the_system_is_out_of_reach(body: str):
    assert answer(body).startswith("PermissionError: [Errno 1] Operation not permitted")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")
@pytest.mark.parametrize(
    "call",
    [
        "41, 2, 1, 0",  # socket
        "57",  # fork
        "56, 0x11, 0, 0, 0, 0",  # clone
        "435, 0, 0",  # clone3
        "59, b'/bin/sh', 0, 0",  # execve
        "257, -100, b'/', 0",  # openat
        "101, 16, 1, 0, 0",  # ptrace
        "272, 0x10000000",  # unshare
        "310, 1, 0, 0, 0, 0, 0",  # process_vm_readv
        "425, 8, 0",  # io_uring_setup
        "321, 0, 0, 0",  # bpf
        "248, b'user', b'k', b'v', 1, -2",  # add_key
        "157, 1, 0, 0, 0, 0",  # prctl: outlive the parent
    ],
)
def test_raw_system_calls_are_refused(call: str):
    assert run_calls(SYSCALL.format(call), "f", [[]]).results == [{"value": [-1, 1]}]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has another calling convention")
def test_the_other_calling_convention_kills():
    (result,) = run_calls(SYSCALL.format("0x40000000 + 41, 2, 1, 0"), "f", [[]]).results
    assert result == {"error": "it was killed by signal 31"}  # SIGSYS


def test_threads_cannot_multiply():
    assert "can't start new thread" in answer("import _thread\n_thread.start_new_thread(print, ())")


def test_no_secret_comes_along(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RETRACE_TEST_KEY", "secret")
    assert "secret" not in str(answer("import os\nreturn dict(os.environ)"))
    assert answer("import os\nos.close(0)\nreturn os.read(3, 10)") == "OSError: [Errno 9] Bad file descriptor (line 4)"


def test_time_and_memory_and_output_are_bounded():
    assert answer("while True: pass", cpu_seconds=1) == "it computed for too long"
    assert answer("return len('x' * 10**10)").startswith("MemoryError")
    assert answer("import os\nwhile True: os.write(1, b'x' * 60000)", cpu_seconds=1) == "no answer"
    assert len(run_calls("def f():\n    print('x' * 10**6)", "f", [[]]).results[0]["printed"]) == 2000


WAIT = "import _thread\nlock = _thread.allocate_lock()\nlock.acquire()\nlock.acquire()"


def test_code_cannot_wait_in_a_place_that_others_need():
    began = time.monotonic()
    assert answer(WAIT) == "the interpreter crashed"
    assert time.monotonic() - began < 10  # of the 30 seconds that would be allowed


def test_what_waits_nevertheless_ends_too_and_nothing_is_left_running(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(sandbox, "JAIL", jail_with(tmp_path, "jail.WAKING = range(128)"))
    began = time.monotonic()
    assert answer(WAIT, wall_seconds=1.5) == "the time was up"
    assert time.monotonic() - began < 10
    commands = alive(psutil.Process().children(recursive=True))
    assert not [command for command in commands if str(sandbox.JAIL) in command]


def test_a_crash_is_an_answer_and_the_calls_before_it_count():
    source = "import ctypes\ndef f(crash):\n    return ctypes.string_at(0) if crash else 1"
    results = run_calls(source, "f", [[False], [True], [False]]).results
    crashed = {"error": "the interpreter crashed"}
    assert results == [{"value": 1}, crashed, crashed]


def test_where_nothing_can_shut_it_in_nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(sandbox, "JAIL", jail_with(tmp_path, "jail.MACHINES.clear()"))
    with pytest.raises(NoIsolation, match="no system call filter is known"):
        run_calls("def f(): pass", "f", [[]])


def test_a_filter_that_does_not_hold_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    change = (
        "number = jail.platform.machine()\njail.MACHINES[number].allowed.update(stat=262 if number == 'x86_64' else 79)"
    )
    monkeypatch.setattr(sandbox, "JAIL", jail_with(tmp_path, change))
    with pytest.raises(NoIsolation, match="isn't effective"):
        run_calls("def f(): pass", "f", [[]])


def test_where_containers_forbid_namespaces_the_filter_still_stands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    change = "def forbidden(*_): raise PermissionError\njail.enter_namespaces = forbidden"
    monkeypatch.setattr(sandbox, "JAIL", jail_with(tmp_path, change))
    ran = run_calls("def f():\n    return open('/etc/passwd').read()", "f", [[]])
    assert ran.walls == ["limits", "filter"]
    assert "Operation not permitted" in ran.results[0]["error"]
