"""`python -m retrace` is the command `retrace`."""

from retrace.cli.main import entry_point

entry_point()
