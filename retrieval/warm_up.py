"""The local embedding model loaded by every worker as soon as one of them needs it.

Loading takes longer than a search may: without this the first search of each worker would go by words. Workers that
embed nothing load nothing.
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
    """`mark` is a file that all workers see; it stays, so that after a restart all load at once. `load` may raise
    RagError."""

    def __init__(self, mark: Path, load: Callable[[], None]) -> None:
        self._mark = mark
        self._load = load
        self._is_marked = False
        self._ends = threading.Event()
        threading.Thread(target=self._wait, name="warm-up", daemon=True).start()

    def close(self) -> None:
        self._ends.set()

    def needed(self) -> None:
        """Something is about to be embedded."""
        if self._is_marked:
            return
        self._is_marked = True
        try:
            self._mark.touch()
        except OSError as error:
            log.warning("other workers are not told to load the model", reason=str(error))

    def _wait(self) -> None:
        while not self._mark.exists():
            if self._ends.wait(LOOK_SECONDS):
                return
        try:
            self._load()
        except RagError as error:
            log.warning("the embedding model is not loaded ahead", reason=error.message)
