"""The program for tests of the fork server: prints what it is on one line, then follows instructions."""

import json
import os
import signal
import sys

if __name__ == "__main__":
    keys = {name: value for name, value in os.environ.items() if name.endswith("_API_KEY")}
    family = {"group": os.getpgid(0), "parent": os.getppid()}
    print(json.dumps([sys.argv[1:], keys, os.getcwd(), os.nice(0), family]), flush=True)
    if sys.argv[1:] == ["sleep"]:
        signal.pause()
    sys.exit(7)
