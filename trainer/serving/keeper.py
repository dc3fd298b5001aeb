"""Keeps a vLLM server running with the model named in a pointer file, and restarts it when the file changes.

    python keeper.py --pointer /runs/served/vllm-8000.json --default Qwen/Qwen3-8B -- python -m vllm.entrypoints.openai.api_server --port 8000

It adds `--model` and `--served-model-name` to the command. The pointer, written by Retrace's workers, is
{"model": "<folder, relative to the pointer's own>", "served_name": "<name>"}; without it, --default is served as `base`.
This file is standalone: it runs in vLLM's environment, with only the standard library.
"""

import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

CHECK_EVERY_SECONDS = 1.0
PATIENCE_SECONDS = 60.0
"""Grace period for the server before it's killed."""
RESTART_DELAY_SECONDS = 5.0
"""Delay before restarting a server that ended by itself."""


class Stopped(Exception):
    """SIGTERM or Ctrl-C."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pointer", type=Path, required=True)
    parser.add_argument("--default", default="", help="what to serve until there is a pointer")
    parser.add_argument("command", nargs="+", help="the server, after --")
    options = parser.parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    server: subprocess.Popen[bytes] | None = None
    serving: tuple[str, str] | None = None
    try:
        while True:
            requested = requested_model(options.pointer, default=options.default)
            if server is not None and (requested != serving or server.poll() is not None):
                status = server.poll()
                end(server)
                server = None
                if status is not None and requested == serving:
                    print(f"The server ended with status {status}; starting it again.", flush=True)
                    time.sleep(RESTART_DELAY_SECONDS)
            if server is None and requested is not None:
                serving = requested
                model, name = requested
                print(f"Serving {model} as {name}", flush=True)
                server = subprocess.Popen([*options.command, "--model", model, "--served-model-name", name])
            time.sleep(CHECK_EVERY_SECONDS)
    except Stopped:
        return 0
    finally:
        if server is not None:
            end(server)


def requested_model(pointer: Path, *, default: str) -> tuple[str, str] | None:
    """The model to serve and its name; None if there is none."""
    try:
        pointed = json.loads(pointer.read_text(encoding="utf-8"))
        model, name = pointed["model"], pointed["served_name"]
    except (OSError, ValueError, LookupError, TypeError):
        return (default, "base") if default else None
    folder = pointer.parent / model
    return (str(folder.resolve()) if folder.is_dir() else model), name


def end(server: "subprocess.Popen[bytes]") -> None:
    """Terminate it, and kill it if necessary."""
    server.terminate()
    try:
        server.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
