"""Records which of our files have functions that run. Python imports this automatically in every process that finds it on PYTHONPATH.

FLOW_TRACE is a folder. While its file `phase` contains a name, each process appends files to `<name>.<pid>`, each once.
Only calls of functions count: code that runs while a module is imported belongs to no flow.
"""

import os
import sys
import threading
import time
from pathlib import Path
from types import CodeType, FrameType

FOLDER = Path(os.environ["FLOW_TRACE"]) if "FLOW_TRACE" in os.environ else None
ROOT = Path(__file__).resolve().parents[2]
OURS = tuple(f"{ROOT / name}{os.sep}" for name in ("apps", "contract", "trainer", "workers"))
POLL_SECONDS = 0.05
IS_FUNCTION = 0x1
"""CO_OPTIMIZED: set for functions, but not for module and class bodies."""


class Tracer:
    """One per process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.phase = ""
        self.seen: set[CodeType] = set()
        self.files: set[str] = set()

    def start(self) -> None:
        """Also called in a forked child, which has only its first thread."""
        self._poll()
        threading.Thread(target=self._poll_forever, daemon=True, name="flow-trace").start()

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not self.phase or code in self.seen:
            return
        if not code.co_filename.startswith(OURS) or not code.co_flags & IS_FUNCTION:
            self.seen.add(code)
            return
        if _is_importing(frame):
            return
        self.seen.add(code)
        if code.co_filename not in self.files:
            self.files.add(code.co_filename)
            with (self.folder / f"{self.phase}.{os.getpid()}").open("a") as file:
                file.write(f"{Path(code.co_filename).relative_to(ROOT)}\n")

    def _poll_forever(self) -> None:
        while True:
            time.sleep(POLL_SECONDS)
            self._poll()

    def _poll(self) -> None:
        try:
            phase = (self.folder / "phase").read_text()
        except OSError:
            phase = ""
        if phase != self.phase:
            self.seen, self.files, self.phase = set(), set(), phase


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


if FOLDER is not None:
    tracer = Tracer(FOLDER)
    tracer.start()
    os.register_at_fork(after_in_child=tracer.start)
    threading.setprofile(tracer.profile)
    sys.setprofile(tracer.profile)
