"""`python -m trainer run.json` runs what the file describes, in the file's folder.

Exit codes: 0 finished, 1 crash, 2 configuration, 3 data, 4 out of memory, 5 cancelled (SIGTERM or Ctrl-C; run the same command
again to resume). The last line of `events.jsonl` in that folder has the details.
"""

import argparse
import os
import sys
from pathlib import Path

from contract.lifetime import TIED, die_with_parent
from trainer.failures import ExitCode
from trainer.interruption import StopRequest
from trainer.job import run


def main(arguments: list[str]) -> ExitCode:
    parser = argparse.ArgumentParser(
        prog="python -m trainer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", type=Path, metavar="run.json", help="what to do; its folder becomes the run's folder")
    path: Path = parser.parse_args(arguments).config
    if not path.is_file():
        print(f"There is no file {path}. Give the path of a run.json.", file=sys.stderr)
        return ExitCode.CONFIG
    if os.environ.get(TIED):
        die_with_parent()
    stop = StopRequest()
    stop.listen()
    return run(path.resolve(), stop=stop)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
