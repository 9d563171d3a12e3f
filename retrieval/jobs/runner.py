"""What works on jobs, in the process that leads for as long as that lives: a thread for each file under way."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from weakref import WeakKeyDictionary

import structlog

from providers.outbound import deadlines
from retrieval.jobs.background_helper import BackgroundHelper
from retrieval.jobs.ingesting import PAUSES_SECONDS, JobWork, Outcome, StoppedError
from retrieval.jobs.spool import Spool
from retrieval.jobs.stored_jobs import StoredJobs
from retrieval.reading import DocumentReader
from schemas.access.callers import SERVICE, acting_as
from schemas.contracts.jobs import DueFile, Place
from schemas.errors import RagError

log = structlog.get_logger(__name__)

LOOK_SECONDS = 0.5
"""How often the leader looks for jobs that other processes were given, and the others whether there is a leader."""
RETRY_SECONDS = 5.0
TIDY_SECONDS = 3600.0
STOP_SECONDS = 5.0
MAX_FILES, MAX_OF_OWNER = 8, 4
"""The most files that are worked on at the same time, and the most of them of one owner. What hangs is not counted: it
waits for another service for long, or its job was cancelled meanwhile."""
MAX_OF_CONNECTION, MAX_OF_BOTH = 4, 2
"""The most files of one connection that are worked on or hang, and of one owner on one connection."""
MAX_THREADS, MAX_BUSY_ALIKE = 128, 8
"""The most threads, of which connections that did not answer leave `MAX_FILES` to others, and the most of one
connection or of one owner that do not hang, with those of cancelled jobs."""
UNANSWERED_ROOM = MAX_THREADS // 2
"""A connection is given another file only while more threads are free than this for each of its files that hangs since
its last answer: it loses one thread, or two while there is much room, and delays no files but its own."""
SLOW_SECONDS = 5.0
"""The time after which the work on a file holds up no other one of its connection any more, and a call hangs."""
Version = tuple[str, str]
"""The id of a connection, and what is another one each time that it was changed."""
EVERYBODY: Version = ("", "")
"""Stands for all connections where a failure is none of the embedding."""

ConnectionsOf = Callable[[Collection[Place]], Mapping[Place, Version]]


class ServiceCalls:
    """Since when threads wait for other services; safe for use by several of them. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: WeakKeyDictionary[threading.Thread, float] = WeakKeyDictionary()

    @contextmanager
    def call(self) -> Iterator[None]:
        """Wait for another service in the block. Where that fails, the next call is the same wait."""
        me = threading.current_thread()
        self._since.setdefault(me, self._clock())
        yield
        del self._since[me]

    def hangs(self, thread: threading.Thread) -> bool:
        """Return whether a thread has waited for an answer for long."""
        return self._since.get(thread, math.inf) <= self._clock() - SLOW_SECONDS


@dataclass(eq=False, slots=True)
class _UnderWay:
    """The work on a file. It `is_unwanted` when its job was cancelled, or the file was taken out of it, and when it
    hangs at a connection that is not the same any more: what it asks of services is then cut off."""

    connection: Version
    file: DueFile
    began_at: float
    is_unwanted: bool = False
    thread: threading.Thread = field(init=False)


class JobRunner:
    """Works on the jobs of a data directory, when no other process does: on one file at a time of each connection that
    embeds, and on another one beside those that take long, so that none waits for another one's service or text; and
    for their owners in turn. `calls` are those of `work` to other services.

    `connections_of` returns the connections that embed the documents of collections. A connection that fails for all
    texts is left alone for a while, longer each time. `tidy` is called now and then by the one that leads. `clock`
    returns seconds.
    """

    def __init__(
        self,
        jobs: StoredJobs,
        spool: Spool,
        work: JobWork,
        *,
        calls: ServiceCalls,
        connections_of: ConnectionsOf,
        reader: DocumentReader,
        helpers: Sequence[BackgroundHelper],
        stopping: threading.Event,
        tidy: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jobs = jobs
        self._spool = spool
        self._work = work
        self._calls = calls
        self._connections_of = connections_of
        self._reader = reader
        self._helpers = helpers
        self._stopping = stopping
        self._tidy = tidy
        self._clock = clock
        self._tidied_at = float("-inf")
        self._called, self._has_ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)
        self._lock = threading.Lock()
        self._under_way: list[_UnderWay] = []
        self._failures: dict[Version, tuple[int, float]] = {}  # how many one after the other, and until when it rests
        self._answered_at: dict[Version, float] = {}  # without those that failed since
        self._due: list[DueFile] = []
        self._connections: Mapping[Place, Version] = {}
        self._looked_at = float("-inf")
        self._served: dict[str, int] = {}
        self._turns = count()

    def start(self) -> None:
        self._thread.start()

    def call(self) -> None:
        """Have a job that was just stored looked for at once, if this process leads."""
        self._called.set()

    def stop(self) -> None:
        """End the work and the processes that help with it; what is under way goes on after the next start."""
        self._stopping.set()
        self._called.set()
        for each in self._helpers:
            each.close()
        until = time.monotonic() + STOP_SECONDS
        threads = [self._thread, *(each.thread for each in self._now_under_way())]
        for thread in threads:
            if thread.is_alive():
                thread.join(max(0.0, until - time.monotonic()))
        if not any(thread.is_alive() for thread in threads):
            self._reader.close()
            self._spool.give_up_lead()
            return
        # The others wait for a parser or a service, and end with this process: that is no end of theirs.
        for work in self._now_under_way():
            with suppress(RagError):
                self._jobs.interrupted(work.file)

    def _run(self) -> None:
        while not self._stopping.is_set():
            pause_seconds = LOOK_SECONDS
            try:
                if self._spool.lead():
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
        self._begin_what_can()
        if not self._now_under_way():
            for each in self._helpers:
                each.rest()

    def _begin_what_can(self) -> None:
        """Begin with a file of each connection that is free and does not rest, for who was served longest ago.

        What is due is asked for once in a while, and when the work on a file has ended and nothing of that can be
        begun: it takes longer the more jobs wait.
        """
        under_way = self._now_under_way()
        if self._clock() - self._looked_at < LOOK_SECONDS and (
            self._begin_some(fresh=False) or (under_way and not self._has_ended.is_set())
        ):
            return
        self._has_ended.clear()
        self._looked_at = self._clock()
        self._due = []
        due = self._jobs.due([(each.file.job_id, each.file.number) for each in under_way])
        places = {each.place for each in (*due, *(work.file for work in under_way))}
        with acting_as(SERVICE):
            self._connections = self._connections_of(places) if places else {}
        self._find_unwanted(under_way)
        self._due = due
        waiting = {_whose(each) for each in self._due}
        self._served = {whose: turn for whose, turn in self._served.items() if whose in waiting}
        self._begin_some(fresh=True)

    def _find_unwanted(self, under_way: Sequence[_UnderWay]) -> None:
        waiting = self._jobs.waiting({each.file.job_id for each in under_way})
        for each in under_way:
            is_elsewhere = self._connections[each.file.place] != each.connection
            each.is_unwanted |= (
                each.file.job_id not in waiting
                or not self._jobs.is_unfinished(each.file.job_id, each.file.number)
                or (is_elsewhere and self._calls.hangs(each.thread))
            )

    def _begin_some(self, *, fresh: bool) -> bool:
        """Begin with what can be begun of what is due, and return whether there was any. Who has a file under way gets
        another one after all others, so only where it is `fresh` what is due. Of theirs, those of connections that
        have none under way come first, and that answered."""
        if self._rests(EVERYBODY):
            return False
        begun = []
        busy = Counter(_whose(each.file) for each in self._now_under_way() if not each.is_unwanted)
        held = {each.connection for each in self._now_under_way()}
        of = {place: (each in held, each not in self._answered_at) for place, each in self._connections.items()}
        self._due.sort(key=lambda each: of[each.place])
        for file in sorted(self._due, key=lambda each: (busy[_whose(each)], self._served.get(_whose(each), -1))):
            if busy[_whose(file)] and not fresh:
                continue
            connection = self._connections[file.place]
            with self._lock:
                if not self._is_free(connection, _whose(file)) or self._rests(connection) or self._stopping.is_set():
                    continue
                work = _UnderWay(connection, file, self._clock())
                work.thread = threading.Thread(
                    target=self._work_on, args=(work,), name=f"jobs {connection[0]}", daemon=True
                )
                self._under_way.append(work)
            try:
                work.thread.start()
            except RuntimeError:  # no room for a thread now
                with self._lock:
                    self._under_way.remove(work)
                raise
            begun.append(file)
            self._served[_whose(file)] = next(self._turns)
        self._due = [each for each in self._due if each not in begun]
        return bool(begun)

    def _is_free(self, connection: Version, whose: str) -> bool:
        own = [each for each in self._under_way if _whose(each.file) == whose]
        alike = [each for each in self._under_way if each.connection == connection]
        busy = [each for each in self._under_way if not self._calls.hangs(each.thread)]
        answered_at = self._answered_at.get(connection, -math.inf)
        unanswered = sum(each not in busy and each.began_at >= answered_at for each in alike)
        free = MAX_THREADS - len(self._under_way) - MAX_FILES * (connection not in self._answered_at)
        works = [each for each in busy if not each.is_unwanted]
        others = [each for each in alike if not each.is_unwanted]
        slow_from = self._clock() - SLOW_SECONDS
        return (
            free > unanswered * UNANSWERED_ROOM
            and all(sum(each in busy for each in some) < MAX_BUSY_ALIKE for some in (own, alike))
            and len(works) < MAX_FILES
            and sum(each in works for each in own) < MAX_OF_OWNER
            and len(others) < MAX_OF_CONNECTION
            and sum(each in own for each in others) < MAX_OF_BOTH
            and all(each.began_at <= slow_from for each in others)
        )

    def _work_on(self, work: _UnderWay) -> None:
        file, outcome = work.file, Outcome.SERVICE_FAILS
        try:
            with deadlines.while_wanted(lambda: work.is_unwanted):
                outcome = self._work.run(file)
        except StoppedError:
            outcome = Outcome.NOTHING
        except RagError as error:
            log.warning("jobs wait", reason=error.message)
        except Exception:
            log.exception("the work on jobs failed in a way nobody expected")
        finally:
            self._note(work.connection, outcome)
            try:
                if not self._jobs.waiting([file.job_id]):
                    self._spool.remove(file.job_id)
            except RagError as error:
                log.warning("the files of a job stay for now", job=file.job_id, reason=error.message)
            with self._lock:
                self._under_way.remove(work)
            self._has_ended.set()
            self._called.set()

    def _note(self, connection: Version, outcome: Outcome) -> None:
        with self._lock:
            if outcome is Outcome.STORED:
                self._failures.pop(connection, None)
                self._failures.pop(EVERYBODY, None)
                self._answered_at[connection] = self._clock()
            elif outcome is not Outcome.NOTHING:
                who = connection if outcome is Outcome.CONNECTION_FAILS else EVERYBODY
                self._answered_at.pop(who, None)
                failures, _ = self._failures.get(who, (0, 0.0))
                pause_seconds = PAUSES_SECONDS[min(failures, len(PAUSES_SECONDS) - 1)]
                self._failures[who] = failures + 1, self._clock() + pause_seconds

    def _rests(self, who: Version) -> bool:
        return self._failures.get(who, (0, 0.0))[1] > self._clock()

    def _now_under_way(self) -> list[_UnderWay]:
        with self._lock:
            return list(self._under_way)


def _whose(file: DueFile) -> str:
    """Return whose turn a file takes: its owner's and, where nobody has a name, its job's."""
    return file.owner or file.job_id
