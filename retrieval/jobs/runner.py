"""What works on jobs, in the process that leads for as long as that lives: a thread for each file under way."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from providers.outbound import deadlines
from retrieval.jobs.background_helper import BackgroundHelper
from retrieval.jobs.ingesting import PAUSES_SECONDS, JobWork, Outcome, StoppedError
from retrieval.reading import DocumentReader
from schemas.access.callers import SERVICE, acting_as
from schemas.contracts.jobs import DueFile, Place
from schemas.errors import RagError
from schemas.giving_way import QUESTIONS

log = structlog.get_logger(__name__)

LOOK_SECONDS = 0.5
"""How often the leader looks for jobs that other processes were given, and the others whether there is a leader."""
RETRY_SECONDS = 5.0
TIDY_SECONDS = 3600.0
STOP_SECONDS = 5.0
OF_CONNECTION, OF_OWNER = 4, 2
"""The most files of one connection that are under way, and the most of them of one owner: one is read beside another
that is embedded, and neither a long file nor a text that hangs holds up another owner's."""
MAX_THREADS = 64
"""The most files under way. An owner is given another one while more threads are free than they have, so that there is
always one for somebody else."""
MAX_TURNS = 1_000
"""Of so many owners it is remembered when their turn was."""
Version = tuple[str, str]
"""The id of a connection, and what is another one each time that it was changed."""
EVERYBODY: Version = ("", "")
"""Stands for all connections where a failure is none of the embedding, nor of a collection."""

ConnectionsOf = Callable[[Collection[Place]], Mapping[Place, Version]]


@dataclass(eq=False, slots=True)
class _UnderWay:
    """The work on a file. It `is_unwanted` when its job was cancelled, the file was taken out of it, or its connection
    is not the same any more: what it asks of services is then cut off."""

    connection: Version
    file: DueFile
    is_unwanted: bool = False
    thread: threading.Thread = field(init=False)


class JobRunner:
    """Works on the jobs of a data directory, when no other process does: on some files of each connection that embeds
    at a time, for their owners in turn.

    `connections_of` returns the connections that embed the documents of collections. A connection that fails for all
    texts is left alone for a while, longer each time, and then tried with a file of whoever was served longest ago.
    `workers` help in processes of their own, which end when they were not needed for a while. `tidy` is called now and
    then by the one that leads. `clock` returns seconds.
    """

    def __init__(
        self,
        work: JobWork,
        *,
        connections_of: ConnectionsOf,
        workers: Sequence[BackgroundHelper | DocumentReader],
        tidy: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._work, self._jobs, self._spool, self._stopping = work, work.jobs, work.spool, work.stopping
        self._connections_of = connections_of
        self._workers = workers
        self._tidy = tidy
        self._clock = clock
        self._tidied_at = float("-inf")
        self._called = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)
        self._lock = threading.Lock()
        self._under_way: list[_UnderWay] = []
        self._failures: dict[Version | Place, tuple[int, float]] = {}  # how many in a row, and until when it rests
        self._served: list[str] = []  # the last one last

    def start(self) -> None:
        self._thread.start()

    def call(self) -> None:
        """Have a job that was just stored looked for at once, if this process leads."""
        self._called.set()

    def stop(self) -> None:
        """End the work and the processes that help with it; what is under way goes on after the next start."""
        self._stopping.set()
        self._called.set()
        for each in self._workers:
            each.close()
        until = time.monotonic() + STOP_SECONDS
        threads = [self._thread, *(each.thread for each in self._now_under_way())]
        for thread in threads:
            if thread.is_alive():
                thread.join(max(0.0, until - time.monotonic()))
        if not any(thread.is_alive() for thread in threads):
            self._spool.leadership.release()
            return
        # The others wait for a service, and end with this process: that is no end of theirs.
        for work in self._now_under_way():
            with suppress(RagError):
                self._jobs.goes_on(work.file.job_id, work.file.number)

    def _run(self) -> None:
        while not self._stopping.is_set():
            pause_seconds = LOOK_SECONDS
            try:
                if self._spool.leadership.acquire():
                    self._lead()
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
        while not self._stopping.is_set() and self._begin_what_is_due():
            pass
        if not self._now_under_way():
            for each in self._workers:
                each.rest()

    def _begin_what_is_due(self) -> bool:
        """Begin what may be of the next files of all jobs, and return whether another one of these jobs may begin. Stop
        what is unwanted."""
        under_way = self._now_under_way()
        due = self._jobs.due([(each.file.job_id, each.file.number) for each in under_way])
        places = {each.place for each in (*due, *(work.file for work in under_way))}
        with acting_as(SERVICE):
            connections = self._connections_of(places) if places else {}
        waiting = self._jobs.waiting({each.file.job_id for each in under_way})
        for each in under_way:
            each.is_unwanted |= (
                each.file.job_id not in waiting
                or not self._jobs.is_unfinished(each.file.job_id, each.file.number)
                or connections[each.file.place] != each.connection
            )
        begun = []
        while (file := self._next(due, connections)) is not None:
            self._begin(file, connections[file.place])
            due.remove(file)
            begun.append(file)
        return self._next(begun, connections) is not None

    def _next(self, due: Sequence[DueFile], connections: Mapping[Place, Version]) -> DueFile | None:
        """Return the file to begin with now, None where none may be begun: of whoever has the fewest under way, and was
        served longest ago."""
        under_way = self._now_under_way()
        of_owner = Counter(each.file.whose for each in under_way)
        wanted = [each for each in under_way if not each.is_unwanted]
        of_connection = Counter(each.connection for each in wanted)
        of_both = Counter((each.connection, each.file.whose) for each in wanted)
        turns = {whose: turn for turn, whose in enumerate(self._served)}
        suspected = {each.connection for each in under_way if each.file.is_suspect}
        # One that was cancelled or taken back may still write or delete what the next one of its document stores.
        documents = {each.file.document for each in under_way if each.file.document is not None}

        def may_begin(file: DueFile) -> bool:
            whose, connection = file.whose, connections[file.place]
            return (
                of_owner[whose] < MAX_THREADS - len(under_way)
                # One file finds out whether a connection embeds again.
                and of_connection[connection] < (1 if connection in self._failures else OF_CONNECTION)
                and of_both[connection, whose] < OF_OWNER
                and not (file.is_suspect and connection in suspected)
                and file.document not in documents
                and not any(self._rests(each) for each in (connection, file.place, EVERYBODY))
            )

        def turn(file: DueFile) -> tuple[int, int]:
            whose = file.whose
            return of_owner[whose], turns.get(whose, -1)

        return min(filter(may_begin, due), key=turn, default=None)

    def _begin(self, file: DueFile, connection: Version) -> None:
        work = _UnderWay(connection, file)
        work.thread = threading.Thread(target=self._work_on, args=(work,), name=f"jobs {connection[0]}", daemon=True)
        with self._lock:
            if self._stopping.is_set():
                return
            self._under_way.append(work)
        try:
            work.thread.start()
        except RuntimeError:  # no room for a thread now
            with self._lock:
                self._under_way.remove(work)
            raise
        self._served = [*(each for each in self._served if each != work.file.whose), work.file.whose][-MAX_TURNS:]

    def _work_on(self, work: _UnderWay) -> None:
        file, outcome, seconds = work.file, Outcome.SERVICE_FAILS, 0.0
        try:
            with QUESTIONS.given_way(), deadlines.while_wanted(lambda: work.is_unwanted):
                outcome, seconds = self._work.run(file, embeds=lambda: self._embeds(work.connection))
        except StoppedError:
            outcome = Outcome.NOTHING
        except RagError as error:
            log.warning("jobs wait", reason=error.message)
        except Exception:
            log.exception("the work on jobs failed in a way nobody expected")
        finally:
            self._note(work, outcome, seconds)
            try:
                if not self._jobs.waiting([file.job_id]):
                    self._spool.remove(file.job_id)
            except RagError as error:
                log.warning("the files of a job stay for now", job=file.job_id, reason=error.message)
            with self._lock:
                self._under_way.remove(work)
            self._called.set()

    def _embeds(self, connection: Version) -> None:
        """Note that a connection answers, before the file is through with which that was found out."""
        with self._lock:
            has_failed = self._failures.pop(connection, None) is not None
        if has_failed:
            self._called.set()

    def _note(self, work: _UnderWay, outcome: Outcome, seconds: float) -> None:
        failing = Outcome.CONNECTION_FAILS, Outcome.COLLECTION_WAITS, Outcome.SERVICE_FAILS
        of = dict(zip(failing, (work.connection, work.file.place, EVERYBODY), strict=True))
        with self._lock:
            if outcome is Outcome.STORED:
                for each in of.values():
                    self._failures.pop(each, None)
            elif (who := of.get(outcome)) is not None and not self._rests(who):  # else it is the same failure
                failures = self._failures.get(who, (0, 0.0))[0]
                pause_seconds = max(seconds, PAUSES_SECONDS[min(failures, len(PAUSES_SECONDS) - 1)])
                is_longer = outcome is not Outcome.COLLECTION_WAITS
                self._failures[who] = failures + is_longer, self._clock() + pause_seconds

    def _rests(self, who: Version | Place) -> bool:
        return self._failures.get(who, (0, 0.0))[1] > self._clock()

    def _now_under_way(self) -> list[_UnderWay]:
        with self._lock:
            return list(self._under_way)
