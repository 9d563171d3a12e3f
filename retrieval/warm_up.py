"""Load the embedding model in every worker before it is needed: at the start when there is something to search, else as
soon as one of the workers embeds.

Loading the local model takes longer than a search may, so each worker's first search would fall back on words. Workers
of a service that embeds nothing load nothing.
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
    """Loads the model in the background when it is due; `mark` is a file that all workers see, and it stays."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark
        self._is_marked = False
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, is_due: Callable[[], bool], load: Callable[[], None]) -> None:
        """Call `load` in a thread when `is_due` returns true or a worker embeds; a RagError of either is logged."""
        self._thread = threading.Thread(target=self._run, args=(is_due, load), name="warm-up", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ends.set()
        if self._thread is not None:
            self._thread.join()

    def needed(self) -> None:
        """Tell all workers that something is about to be embedded."""
        if self._is_marked:
            return
        self._is_marked = True
        try:
            self._mark.touch()
        except OSError as error:
            log.warning("other workers are not told to load the model", reason=str(error))

    def _run(self, is_due: Callable[[], bool], load: Callable[[], None]) -> None:
        try:
            is_due_already = is_due()
            while not is_due_already and not self._mark.exists():
                if self._ends.wait(LOOK_SECONDS):
                    return
            load()
        except RagError as error:
            log.info("embeddings are not ready yet", reason=error.message)
