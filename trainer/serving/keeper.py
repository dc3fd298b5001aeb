"""Keeps a vLLM server running with the model named in a pointer file, and restarts it when the file changes.

    python keeper.py --pointer /runs/served/vllm-8000.json --default Qwen/Qwen3-8B -- python -m vllm.entrypoints.openai.api_server --port 8000

It adds `--model` and `--served-model-name` to the command. The pointer, written by Retrace's workers, is
{"model": "<folder, relative to the pointer's own>", "served_name": "<name>"}; without it, --default is served as `base`.
This file is standalone: it runs in vLLM's environment, with only the standard library.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

CHECK_EVERY_SECONDS = 1.0
PATIENCE_SECONDS = 60.0
"""Grace period for the server before it's killed."""
RESTART_DELAY_SECONDS = 5.0
"""Delay before restarting a server that ended by itself."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pointer", type=Path, required=True)
    parser.add_argument("--default", default="", help="what to serve until there is a pointer")
    parser.add_argument("command", nargs="+", help="the server, after --")
    options = parser.parse_args(arguments)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.set())
    server: subprocess.Popen[bytes] | None = None
    serving: tuple[str, str] | None = None
    requested: tuple[str, str] | None = None
    while not stopping.is_set():
        with suppress(OSError):  # a shared folder that's away for a moment is no reason to serve another model
            requested = requested_model(options.pointer, default=options.default)
        if server is not None and (requested != serving or server.poll() is not None):
            status = server.poll()
            end(server)
            server = None
            if status is not None and requested == serving:
                print(f"The server ended with status {status}; starting it again.", flush=True)
                if stopping.wait(RESTART_DELAY_SECONDS):
                    break
        if server is None and requested is not None:
            serving = requested
            model, name = requested
            print(f"Serving {model} as {name}", flush=True)
            server = subprocess.Popen(
                [*options.command, "--model", model, "--served-model-name", name], start_new_session=True
            )
        stopping.wait(CHECK_EVERY_SECONDS)
    if server is not None:
        end(server)
    return 0


def requested_model(pointer: Path, *, default: str) -> tuple[str, str] | None:
    """The model to serve and its name; None if there is none. Raises OSError if there may be a pointer that can't be read."""
    try:
        pointed = json.loads(pointer.read_text(encoding="utf-8"))
        model, name = pointed["model"], pointed["served_name"]
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return (default, "base") if default else None
    folder = pointer.parent / model
    return (str(folder.resolve()) if folder.is_dir() else model), name


def end(server: "subprocess.Popen[bytes]") -> None:
    """Terminate it, then kill what is left of it and of the processes it started: vLLM's engine, with the memory of its GPU, survives a killed server."""
    server.terminate()
    with suppress(subprocess.TimeoutExpired):
        server.wait(PATIENCE_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
