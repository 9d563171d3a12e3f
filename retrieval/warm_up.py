"""What embeds texts made ready by every worker before it is asked: at the start, where there is something to ask about,
else as soon as one of the workers embeds.

Loading the local model takes longer than a search may: the first search of each worker would go by words. Workers of a
service that embeds nothing load nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import structlog

from schemas.errors import RagError

log = structlog.get_logger(__name__)

LOOK_SECONDS = 0.25


class WarmUp:
    """`mark` is a file that all workers see; it stays."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark
        self._is_marked = False
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, is_due: Callable[[], bool], load: Callable[[], None]) -> None:
        """Both may raise RagError, which is said in the log."""
        self._thread = threading.Thread(target=self._run, args=(is_due, load), name="warm-up", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ends.set()
        if self._thread is not None:
            self._thread.join()

    def needed(self) -> None:
        """Something is about to be embedded."""
        if self._is_marked:
            return
        self._is_marked = True
        try:
            self._mark.touch()
        except OSError as error:
            log.warning("other workers are not told to load the model", reason=str(error))

    def _run(self, is_due: Callable[[], bool], load: Callable[[], None]) -> None:
        try:
            if is_due() or self._is_needed():
                load()
        except RagError as error:
            log.info("embeddings are not ready yet", reason=error.message)

    def _is_needed(self) -> bool:
        while not self._mark.exists():
            if self._ends.wait(LOOK_SECONDS):
                return False
        return True
