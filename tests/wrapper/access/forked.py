"""Processes that were forked as workers are."""

import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Work = Callable[[Callable[[object], int], Callable[[], bytes]], None]
Worker = tuple[int, Callable[[], str], Callable[[], int]]


@contextmanager
def workers(number: int, work: Work) -> Iterator[list[Worker]]:
    """Run `work(send, wait)` in so many processes, which have ended at the end of the block.

    Give each of them as (its id, a function that returns the next line it sent, one that ends its next `wait`).
    """
    started: list[Worker] = []
    opened: list[Callable[[], None]] = []
    try:
        for _ in range(number):
            worker, close = _forked(work)
            started.append(worker)
            opened.append(close)
        yield started
    finally:
        for child, _, _ in started:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        for close in opened:
            close()


def _forked(work: Work) -> tuple[Worker, Callable[[], None]]:
    from_child, to_parent = os.pipe()
    from_parent, to_child = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child takes no lock of other threads of the tests
        child = os.fork()
    if child == 0:
        try:
            work(lambda said: os.write(to_parent, f"{said}\n".encode()), lambda: os.read(from_parent, 1))
        finally:
            os._exit(0)
    os.close(to_parent)
    os.close(from_parent)
    lines = os.fdopen(from_child)

    def close() -> None:
        lines.close()
        os.close(to_child)

    return (child, lambda: lines.readline().strip(), lambda: os.write(to_child, b".")), close
