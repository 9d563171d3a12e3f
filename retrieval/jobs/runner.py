"""What works on jobs, in the process that leads for as long as that lives: a thread for each file under way."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
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
"""The most files that are worked on at the same time, and the most of one owner. What hangs is not counted, since it
waits for another service for long; nor, among everybody's, is what is of a job that was cancelled meanwhile."""
MAX_OF_CONNECTION, MAX_OF_BOTH = 4, 2
"""The most files of one connection that are worked on or hang, and of one owner on one connection."""
MAX_THREADS, MAX_BUSY = 128, 32
"""The most threads, and the most of them that do not hang, with those of cancelled jobs."""
HANGING_ROOM = MAX_THREADS // 4
"""An owner is given another thread while more are free than they have, so that there is always one for somebody else;
than this for each file that hangs at the same connection, which so loses two at most; and than `MAX_FILES`, which are
left to connections that answered, where this one did not yet."""
MAX_TURNS = 1_000
"""Of so many owners it is remembered when their turn was."""
SLOW_SECONDS = 5.0
"""The time after which the work on a file holds up no other one of its connection any more, and a call hangs."""
Version = tuple[str, str]
"""The id of a connection, and what is another one each time that it was changed."""
EVERYBODY: Version = ("", "")
"""Stands for all connections where a failure is none of the embedding, nor of a collection."""

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
    texts is left alone for a while, longer each time, and then tried with a file of whoever was served longest ago.
    `tidy` is called now and then by the one that leads. `clock` returns seconds.
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
        self._failures: dict[Version | Place, tuple[int, float]] = {}  # how many in a row, and until when it rests
        self._answered: set[Version | Place] = set()  # without those that failed since
        self._due: list[DueFile] = []
        self._connections: Mapping[Place, Version] = {}
        self._looked_at = float("-inf")
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
        turns = {whose: turn for turn, whose in enumerate(self._served)}

        def turn(file: DueFile) -> tuple[int, int, bool, bool]:
            whose, connection = _whose(file), self._connections[file.place]
            return busy[whose], turns.get(whose, -1), connection in held, connection not in self._answered

        for file in sorted(self._due, key=turn):
            whose, connection = _whose(file), self._connections[file.place]
            if (busy[whose] and not fresh) or self._rests(connection) or self._rests(file.place):
                continue
            with self._lock:
                if not self._is_free(connection, whose) or self._stopping.is_set():
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
            self._served = [*(each for each in self._served if each != whose), whose][-MAX_TURNS:]
        self._due = [each for each in self._due if each not in begun]
        return bool(begun)

    def _is_free(self, connection: Version, whose: str) -> bool:
        own = [each for each in self._under_way if _whose(each.file) == whose]
        alike = [each for each in self._under_way if each.connection == connection and not each.is_unwanted]
        busy = [each for each in self._under_way if not self._calls.hangs(each.thread)]
        taken = len(self._under_way) + MAX_FILES * (connection not in self._answered)
        return (
            MAX_THREADS - taken > len(own) + HANGING_ROOM * sum(each not in busy for each in alike)
            and len(busy) < MAX_BUSY
            and sum(not each.is_unwanted for each in busy) < MAX_FILES
            and sum(each in busy for each in own) < MAX_OF_OWNER
            and len(alike) < MAX_OF_CONNECTION
            and sum(each in own for each in alike) < MAX_OF_BOTH
            and all(each.began_at <= self._clock() - SLOW_SECONDS for each in alike)
        )

    def _work_on(self, work: _UnderWay) -> None:
        file, outcome, seconds = work.file, Outcome.SERVICE_FAILS, 0.0
        try:
            with deadlines.while_wanted(lambda: work.is_unwanted):
                outcome, seconds = self._work.run(file)
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
            self._has_ended.set()
            self._called.set()

    def _note(self, work: _UnderWay, outcome: Outcome, seconds: float) -> None:
        failing = Outcome.CONNECTION_FAILS, Outcome.COLLECTION_WAITS, Outcome.SERVICE_FAILS
        of = dict(zip(failing, (work.connection, work.file.place, EVERYBODY), strict=True))
        with self._lock:
            if outcome is Outcome.STORED:
                for each in of.values():
                    self._failures.pop(each, None)
                self._answered.add(work.connection)
            elif (who := of.get(outcome)) is not None and not self._rests(who):  # else it is the same failure
                self._answered.discard(who)
                failures = self._failures.get(who, (0, 0.0))[0]
                pause_seconds = max(seconds, PAUSES_SECONDS[min(failures, len(PAUSES_SECONDS) - 1)])
                is_longer = outcome is not Outcome.COLLECTION_WAITS
                self._failures[who] = failures + is_longer, self._clock() + pause_seconds

    def _rests(self, who: Version | Place) -> bool:
        return self._failures.get(who, (0, 0.0))[1] > self._clock()

    def _now_under_way(self) -> list[_UnderWay]:
        with self._lock:
            return list(self._under_way)


def _whose(file: DueFile) -> str:
    """Return whose turn a file takes: its owner's and, where nobody has a name, its job's."""
    return file.owner or file.job_id
