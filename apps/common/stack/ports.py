"""Binds the port before anything else starts and keeps it, so that the printed address is the one in use."""

import errno
import socket

from apps.common.stack.errors import PortTaken, StackError

PORTS_TRIED = 20


def listen(*, host: str, port: int, or_next_free: bool) -> socket.socket:
    """A listening socket on `port`, or one of the next 20, or any free port.

    The web processes share it, so requests during a restart wait instead of being refused.
    Raises PortTaken when `or_next_free` is false and the port is in use.
    """
    candidates = [port, *range(port + 1, min(port + PORTS_TRIED, 65535) + 1), 0] if or_next_free else [port]
    for number in candidates:
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Inherited by connections. Without it, the body waits 40 ms for the browser to acknowledge the headers; uvicorn only
        # sets it on sockets that it opens itself.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            listener.bind((host, number))
            listener.listen(1024)
            return listener
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                raise StackError(f"Cannot listen on {host}:{number}: {error.strerror}.") from error
    raise PortTaken(f"Port {port} on {host} is in use by another program. Give another one, or 0 for any free port.")
