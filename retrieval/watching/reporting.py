"""Report a watcher's state from a thread of its own, so that a long document does not look like a crash."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import structlog

from schemas.contracts.watchers import WatcherReport
from schemas.errors import ConflictError, RagError

log = structlog.get_logger(__name__)

HEARTBEAT_SECONDS = 10.0
"""Seconds between reports without a change; several fit into the time after which a watcher counts as lost."""
SPACING_SECONDS = 1.0
"""Seconds between two reports of changes, at least."""

Send = Callable[[WatcherReport], None]


class Reporter:
    """Sends a watcher's reports in the background; `send` brings one report to the service.

    A report that does not arrive is no failure, because others follow. A ConflictError is one, because it means that
    another instance has the name: it is kept in `refused`, and `on_refused` is called.
    """

    def __init__(
        self,
        send: Send,
        *,
        on_refused: Callable[[], None] = lambda: None,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        spacing_seconds: float = SPACING_SECONDS,
    ) -> None:
        self.refused: ConflictError | None = None
        self._send = send
        self._on_refused = on_refused
        self._heartbeat_seconds = heartbeat_seconds
        self._spacing_seconds = spacing_seconds
        self._latest: WatcherReport | None = None
        self._changed = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, report: WatcherReport) -> None:
        """Take the name. Raises ConflictError while another instance has it, and what `send` raises."""
        self._send(report)
        self._latest = report
        self._thread = threading.Thread(target=self._run, name="watcher-reports", daemon=True)
        self._thread.start()

    @property
    def is_started(self) -> bool:
        return self._thread is not None

    def tell(self, report: WatcherReport) -> None:
        """Send this report soon, unless a newer one comes first."""
        self._latest = report
        self._changed.set()

    def close(self, last: WatcherReport) -> None:
        """Send the last report, which frees the name, and stop."""
        if self._thread is None:
            return
        self._closed.set()
        self._changed.set()
        self._thread.join()
        if self.refused is None:
            with suppress(RagError):
                self._send(last)

    def _run(self) -> None:
        while not self._closed.is_set() and self.refused is None:
            self._changed.wait(self._heartbeat_seconds)
            self._changed.clear()
            if self._closed.is_set() or self._latest is None:
                return
            self._report(self._latest)
            self._closed.wait(self._spacing_seconds)

    def _report(self, report: WatcherReport) -> None:
        try:
            self._send(report)
        except ConflictError as error:
            self.refused = error
            self._on_refused()
        except RagError as error:
            log.debug("a report did not arrive", reason=error.message)
