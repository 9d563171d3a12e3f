"""The one thread of a service that works on jobs: in the process that leads, for as long as that lives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from retrieval.jobs.background_helper import BackgroundHelper
from retrieval.jobs.ingesting import JobWork, StoppedError
from retrieval.jobs.spool import Spool
from retrieval.jobs.stored_jobs import StoredJobs
from retrieval.reading import DocumentReader
from schemas.access.callers import SERVICE, acting_as
from schemas.errors import RagError

log = structlog.get_logger(__name__)

LOOK_SECONDS = 0.5
"""How often the leader looks for jobs that other processes were given, and the others whether there is a leader."""
RETRY_SECONDS = 5.0
TIDY_SECONDS = 3600.0
STOP_SECONDS = 5.0


class JobRunner:
    """Works on the jobs of a data directory, when no other process does.

    `tidy` is called now and then by the one that leads. `clock` returns seconds.
    """

    def __init__(
        self,
        jobs: StoredJobs,
        spool: Spool,
        work: JobWork,
        *,
        reader: DocumentReader,
        background: BackgroundHelper,
        stopping: threading.Event,
        tidy: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jobs = jobs
        self._spool = spool
        self._work = work
        self._reader = reader
        self._background = background
        self._stopping = stopping
        self._tidy = tidy
        self._clock = clock
        self._tidied_at = float("-inf")
        self._called = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def call(self) -> None:
        """Have a job that was just stored looked for at once, if this process leads."""
        self._called.set()

    def stop(self) -> None:
        """End the work and the processes that help with it; the job under way goes on after the next start."""
        self._stopping.set()
        self._called.set()
        self._background.close()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)
        if not self._thread.is_alive():  # else it waits for a parser, which ends with this process
            self._reader.close()
            self._spool.give_up_lead()

    def _run(self) -> None:
        while not self._stopping.is_set():
            pause_seconds = LOOK_SECONDS
            try:
                if self._spool.lead():
                    self._lead()
            except StoppedError:
                continue
            except RagError as error:
                log.warning("jobs wait", reason=error.message)
                pause_seconds = RETRY_SECONDS
            except Exception:
                log.exception("the work on jobs failed in a way nobody expected")
                pause_seconds = RETRY_SECONDS
            self._called.wait(pause_seconds)
            self._called.clear()

    def _lead(self) -> None:
        if self._clock() - self._tidied_at >= TIDY_SECONDS:
            self._tidied_at = self._clock()
            self._spool.sweep(self._jobs.waiting)
            with acting_as(SERVICE):
                self._tidy()
        while (job := self._jobs.take()) is not None:
            try:
                self._work.run(job)
            finally:
                if not self._jobs.waiting([job.id]):
                    self._spool.remove(job.id)
        self._background.rest()
