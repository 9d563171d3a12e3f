"""The thread that tidies up the catalogue in small steps, in one process of the service; no request waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import structlog

from schemas.errors import RagError

log = structlog.get_logger(__name__)

PAUSE_SECONDS = 0.5
PAUSE_AFTER_FAILURE_SECONDS = 5.0


class Tidying:
    """A thread that takes the `steps` while `leads` says that this process is the one to do it.

    Each step returns whether it had anything to do.
    """

    def __init__(self, steps: Sequence[Callable[[], bool]], leads: Callable[[], bool]) -> None:
        self._steps = steps
        self._leads = leads
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidying", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        """Stop after the step under way."""
        self._stopping.set()
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        pause = PAUSE_SECONDS
        while not self._stopping.wait(pause):
            pause = PAUSE_SECONDS
            try:
                while self._leads() and not self._stopping.is_set():
                    if sum(step() for step in self._steps) == 0:
                        break
            except RagError as error:
                log.warning("tidying: going on later", reason=error.message)
                pause = PAUSE_AFTER_FAILURE_SECONDS
            except Exception:
                log.exception("tidying: unexpected failure, going on")
                pause = PAUSE_AFTER_FAILURE_SECONDS
