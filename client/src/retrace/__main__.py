"""`python -m retrace` runs the command `retrace`."""

from retrace.cli.main import entry_point

entry_point()
