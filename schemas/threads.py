"""Threads, of which the system may let a process have no more."""

from __future__ import annotations

import threading
from collections.abc import Callable

from schemas.errors import NoThreadError


def begin_thread(name: str, work: Callable[..., object], *args: object) -> threading.Thread:
    """Return a thread that does some work, begun. Raises NoThreadError."""
    thread = threading.Thread(target=work, args=args, name=name)
    begin(thread)
    return thread


def begin(thread: threading.Thread) -> None:
    """Begin a thread, which is to keep no process from ending. Raises NoThreadError."""
    thread.daemon = True
    try:
        thread.start()
    except RuntimeError:
        raise NoThreadError from None
