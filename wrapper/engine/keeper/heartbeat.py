"""One heartbeat of an engine on this machine.

It uses a bare socket, so that the keeper stays small and a wait for the engine ends at once when something else
happens. Uses the standard library only, because the keeper imports it.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence
from typing import Any

REQUEST = b"GET /api/v2/heartbeat HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


def answers(port: int, *, timeout_seconds: float, interrupts: Sequence[int] = ()) -> bool | None:
    """Return whether the engine on loopback `port` answers 200 in time.

    Returns None when one of the file descriptors in `interrupts` became readable first.
    """
    deadline = time.monotonic() + timeout_seconds
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        connection.connect_ex(("127.0.0.1", port))
        outcome = _wait(connection, deadline, interrupts, writing=True)
        if outcome is not True:
            return outcome
        try:
            connection.send(REQUEST)
            outcome = _wait(connection, deadline, interrupts, writing=False)
            return connection.recv(64).startswith(b"HTTP/1.1 200") if outcome else outcome
        except OSError:
            return False


def _wait(connection: socket.socket, deadline: float, interrupts: Sequence[int], *, writing: bool) -> bool | None:
    reading: list[Any] = list(interrupts) if writing else [connection, *interrupts]
    patience = max(0.0, deadline - time.monotonic())
    readable, writable, _ = select.select(reading, [connection] if writing else [], [], patience)
    if connection in readable or connection in writable:
        return True
    return None if readable else False
