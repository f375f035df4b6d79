"""Ports for servers that are started by number, while other tests start theirs."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port of loopback that nobody listens on, and that the system gives to nobody else for a minute.

    The end of a connection holds it; a server that reuses addresses, as ours do, can take it all the same.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
        with socket.create_connection(("127.0.0.1", port)):
            listener.accept()[0].close()
    return port
