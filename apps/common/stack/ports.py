"""Takes the port before anything else starts, and keeps it: what is printed is what answers."""

import errno
import socket

from apps.common.stack.errors import PortTaken, StackError

NEIGHBOURS = 20


def listen(*, host: str, port: int, or_a_neighbour: bool) -> socket.socket:
    """A listening socket on `port`, else on one of the next 20, else wherever the kernel finds room.

    The web processes share it, so a request that comes while one restarts waits instead of being refused.
    Raises PortTaken when `or_a_neighbour` is false and the port is in use.
    """
    wanted = [port, *range(port + 1, min(port + NEIGHBOURS, 65535) + 1), 0] if or_a_neighbour else [port]
    for number in wanted:
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it. Without it the body waits 40 ms for the browser to acknowledge the headers; uvicorn would
        # see to that only on a socket it opened itself.
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
