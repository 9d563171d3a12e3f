"""Keep a folder in sync, once or for as long as the process runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from datetime import datetime

import structlog

from retrieval.clock import utc_now, z_time
from retrieval.watching.pauses import Pauses
from retrieval.watching.reporting import Reporter
from retrieval.watching.syncing import FolderSync
from schemas.contracts.watchers import (
    MAX_FAILURES,
    MAX_TEXT_CHARACTERS,
    RETRYING,
    SCANNING,
    STOPPED,
    WATCHING,
    FailedFile,
    WatcherReport,
)
from schemas.errors import ConflictError, RagError

log = structlog.get_logger(__name__)

RESCAN_SECONDS = 600.0
"""Seconds after which everything is compared again: the system drops events when there are too many, and a disk of
another machine may send none."""
IS_RUNNING = "watcher_is_running"
DENIED = frozenset({"authentication", "authorization"})
"""The types of errors that say that the service does not know who asks, or does not let them."""

Changes = Generator[set[str], None, None]
"""Yields sets of changed paths, possibly empty, until the watcher is stopped."""
Listen = Callable[[set[str]], Changes]
"""Listens for changes in these folders, not in those below them."""


class Watcher:
    """Keeps one folder in sync; for one thread. `stop` ends it between two files; `told` gets every report."""

    def __init__(
        self,
        sync: FolderSync,
        reporter: Reporter,
        *,
        instance: str,
        collection: str,
        shared: bool = False,
        stop: threading.Event,
        told: Callable[[WatcherReport], None] = lambda report: None,
        pauses: Pauses | None = None,
        clock: Callable[[], datetime] = utc_now,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sync = sync
        self._reporter = reporter
        self._stop = stop
        self._told = told
        self._pauses = pauses or Pauses()
        self._clock = clock
        self._seconds = seconds
        self._report = WatcherReport(instance, SCANNING, collection, z_time(clock()), shared=shared)
        self._other_reported_at: object = None
        sync.on_progress = self._tell

    def run_once(self) -> WatcherReport:
        """Bring the collection in step with the folder once.

        Raises what the service, the embeddings and the folder raise.
        """
        self._reporter.start(self._now())
        try:
            self._compare()
        finally:
            self._end()
        self._raise_refusal()
        return self._report

    def run(self, listen: Listen) -> None:
        """Keep the collection in step until `stop` is set; retry after failures.

        Raises ConflictError when retrying is useless: the collection has another embedding model, or another instance
        has the name. Raises what the service says when it refuses the first report for lack of rights.
        """
        try:
            while not self._stop.is_set():
                try:
                    self._follow(listen)
                except RagError as error:
                    self._wait_after(error)
        finally:
            self._end()
        self._raise_refusal()

    def _follow(self, listen: Listen) -> None:
        """Follow changes until everything must be compared again, as when there are new folders to listen to."""
        self.sync.folder.renew()
        if not self._reporter.is_started:
            self._reporter.start(self._now())
        folders = self.sync.folder.listing().folders
        with closing(listen(folders)) as changes:
            # Listening comes first, so that changes during the comparison are noticed after it.
            self._begin(changes)
            due = self._seconds() + RESCAN_SECONDS
            while self.sync.folders == folders and self._seconds() < due:
                paths = next(changes, None)
                if paths is None:
                    return
                self.sync.folder.check()
                if paths:
                    self.sync.forget(paths)
                    self._catch_up()

    def _begin(self, changes: Changes) -> None:
        try:
            next(changes, None)
        except RagError:
            # Without events, the folder is still compared each time that listening is tried again.
            self._compare()
            raise
        self._compare()
        self._pauses.reset()
        self._tell(state=WATCHING, failing_since=None, reason=None)
        counts = {"files": self.sync.files, "failed": len(self.sync.failed), "passed_over": len(self.sync.passed_over)}
        log.info("in sync", folder=self.sync.folder.name, **counts)

    def _compare(self) -> None:
        self._tell(state=SCANNING)
        self.sync.read_stored()
        self._catch_up()

    def _catch_up(self) -> None:
        self.sync.look()
        self._tell()
        self.sync.work(self._stop.is_set)
        self._tell()

    def _wait_after(self, error: RagError) -> None:
        if not self._reporter.is_started and error.details.get("error_type") in DENIED:
            raise error
        if isinstance(error, ConflictError):
            self._check_whether_it_may_pass(error)
        since = self._report.failing_since or z_time(self._clock())
        seconds = self._pauses.next_seconds()
        log.warning("not in sync", folder=self.sync.folder.name, reason=error.message, next_attempt_seconds=seconds)
        self._tell(state=RETRYING, failing_since=since, reason=error.message[:MAX_TEXT_CHARACTERS])
        self._stop.wait(seconds)

    def _check_whether_it_may_pass(self, error: ConflictError) -> None:
        """Raise the error unless a retry may succeed: a killed instance holds its name only until it counts as lost.

        An instance that reports again is alive.
        """
        reported_at = error.details.get("reported_at")
        if error.code != IS_RUNNING or self._other_reported_at not in (None, reported_at):
            raise error
        self._other_reported_at = reported_at

    def _end(self) -> None:
        self._report = replace(self._now(), state=STOPPED)
        self._told(self._report)
        self._reporter.close(self._report)
        log.info("stopped", folder=self.sync.folder.name)

    def _raise_refusal(self) -> None:
        if self._reporter.refused is not None:
            raise self._reporter.refused

    def _tell(self, **changes: str | None) -> None:
        self._report = replace(self._now(), **changes)  # type: ignore[arg-type]
        self._reporter.tell(self._report)
        self._told(self._report)

    def _now(self) -> WatcherReport:
        failed, passed_over = self.sync.failed, self.sync.passed_over
        last_change = self.sync.last_change
        return replace(
            self._report,
            files=self.sync.files,
            pending=self.sync.pending,
            indexed=self.sync.indexed,
            deleted=self.sync.deleted,
            failed=len(failed),
            failures=_first_of(failed),
            skipped=len(passed_over),
            passed_over=_first_of(passed_over),
            last_change=None if last_change is None else z_time(last_change),
        )


def _first_of(reasons: dict[str, str]) -> tuple[FailedFile, ...]:
    return tuple(
        FailedFile(path[-MAX_TEXT_CHARACTERS:], reasons[path][:MAX_TEXT_CHARACTERS])
        for path in sorted(reasons)[:MAX_FAILURES]
    )
