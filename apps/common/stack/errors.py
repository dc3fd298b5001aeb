"""Errors while the stack starts. Every message says what to do; `run` prints it without a traceback."""


class StackError(Exception):
    """The stack can't start or continue; the message is for the person at the terminal."""


class AlreadyRunning(StackError):
    """Another supervisor holds this folder."""


class PortTaken(StackError):
    """Another program uses the requested port."""
