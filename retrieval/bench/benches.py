"""Measures the search of a running service with its judged questions, in a thread of one of its workers, keeps the
figures in the catalogue's database, and gives the judged questions away as a query set."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any

import orjson
import structlog

from retrieval.bench.judgements import Judgements
from retrieval.bench.query_set import Query, queries_in
from retrieval.bench.running import FUSED, Bench, Run
from retrieval.documents.stored_documents import StoredDocuments
from retrieval.search.engine import SearchEngine
from retrieval.search.oracles.lexical import LexicalOracle
from retrieval.search.oracles.semantic import SemanticOracle
from schemas.access.callers import acting_still, carried
from schemas.access.owners import Asker
from schemas.bounds import DEFAULT_RESULTS
from schemas.contracts.judgements import (
    CANCELLED,
    DONE,
    FAILED,
    MAX_BENCHES,
    RUNNING,
    BenchNotFoundError,
    BenchRunningError,
    KnownBench,
    NothingJudgedError,
    QuerySetFiles,
)
from schemas.errors import NotFoundError, NoThreadError, RagError
from schemas.shared_database import Database, Place, Transaction
from schemas.storage.erasure import Target
from schemas.storage.joined_text import joined_text
from schemas.storage.small_tables import Part, Table, having, owned_by
from schemas.threads import begin_thread
from schemas.ways import FUSIONS

log = structlog.get_logger(__name__)

STEPS = (
    (
        """CREATE TABLE benches (
            id VARCHAR(40) PRIMARY KEY, number BIGINT NOT NULL, owner VARCHAR(200) NOT NULL,
            collection VARCHAR(512) NOT NULL, status VARCHAR(20) NOT NULL, created_at_ms BIGINT NOT NULL,
            told_at_ms BIGINT NOT NULL, finished_at_ms BIGINT, questions INTEGER NOT NULL, searches INTEGER NOT NULL,
            done INTEGER NOT NULL, message {text}, result {text}
        )""",
        "CREATE UNIQUE INDEX benches_in_order ON benches (number)",
    ),
)
MOST_LOOKED_FOR = 100
"""The number of documents of a query set that are looked for."""
STOP_SECONDS = 70.0
"""How long a search that is under way may take to end."""
LOST_AFTER_SECONDS = 120.0
"""How long a running measurement may tell nothing before it is taken for lost with its process. A search may take
a minute."""
LOST = "The process that ran it has ended"


BENCHES = Table("benches", KnownBench, without=("result",))


class StoredBenches(Part):
    """The measurements of one catalogue. Each is its owner's alone; administrators see all."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        super().__init__(database, "benches", STEPS, Place("measurements", "removed", self.erase), clock=clock)

    def begin(self, collection: str, questions: int, searches: int, *, asker: Asker) -> KnownBench:
        """Store a measurement that runs from now on, and forget the owner's oldest beyond `MAX_BENCHES`. Raises
        BenchRunningError while another one runs, whoever's it is, and DiskFloorError."""
        now_ms, made = self._now_ms(), str(uuid.uuid4())

        def operation(transaction: Transaction) -> KnownBench:
            transaction.run(
                "UPDATE benches SET status = ?, message = ?, finished_at_ms = told_at_ms "
                "WHERE status = ? AND told_at_ms < ?",
                (FAILED, LOST, RUNNING, self._lost_before_ms()),
            )
            if BENCHES.count(transaction, having(status=RUNNING)):
                raise BenchRunningError
            BENCHES.insert(
                transaction,
                id=made,
                number=BENCHES.next_number(transaction),
                owner=asker.owner,
                collection=collection,
                status=RUNNING,
                created_at_ms=now_ms,
                told_at_ms=now_ms,
                questions=questions,
                searches=searches,
                done=0,
            )
            BENCHES.keep_first(transaction, MAX_BENCHES, having(owner=asker.owner))
            return self._one(transaction, made, asker)

        return self._database.commit(operation)

    def tell(self, bench_id: str, done: int) -> bool:
        """Store how many searches are through. Return False when it does not run any more: it was cancelled."""
        now_ms = self._now_ms()

        def operation(transaction: Transaction) -> bool:
            BENCHES.update(transaction, having(id=bench_id), told_at_ms=now_ms, done=done)
            return BENCHES.count(transaction, having(id=bench_id, status=RUNNING)) > 0

        return self._database.freely.commit_quickly(operation)

    def finish(self, bench_id: str, result: Mapping[str, Any]) -> None:
        self._end(bench_id, status=DONE, result=orjson.dumps(result).decode())

    def fail(self, bench_id: str, message: str) -> None:
        self._end(bench_id, status=FAILED, message=message)

    def all(self, *, asker: Asker) -> list[KnownBench]:
        """Return the measurements that the asker sees, the latest first, without their figures by question."""
        return [self._known(each) for each in self._rows(BENCHES, owned_by(asker), limit=MAX_BENCHES)]

    def one(self, bench_id: str, *, asker: Asker) -> KnownBench:
        """Return a measurement with its figures. Raises BenchNotFoundError when the asker sees none of that id."""
        with self._database.read() as transaction:
            found = self._one(transaction, bench_id, asker)
            row = transaction.row("SELECT result FROM benches WHERE id = ?", (bench_id,))
        return found if row is None or row[0] is None else replace(found, result=orjson.loads(row[0]))

    def end(self, bench_id: str, *, asker: Asker) -> KnownBench:
        """Cancel a measurement that runs, forget one that has ended, and return it. Raises BenchNotFoundError."""

        def operation(transaction: Transaction) -> KnownBench:
            found = self._one(transaction, bench_id, asker)
            if found.status != RUNNING:
                BENCHES.delete(transaction, having(id=bench_id))
                return found
            BENCHES.update(transaction, having(id=bench_id), status=CANCELLED, finished_at_ms=self._now_ms())
            return self._one(transaction, bench_id, asker)

        return self._database.freely.commit(operation)

    def erase(self, target: Target) -> int:
        """Forget the measurements of an erased user, which have their questions. Return their number."""
        of_user = having(owner=target.owner)
        return self._database.freely.commit(lambda transaction: BENCHES.remove(transaction, of_user))

    def _end(self, bench_id: str, **outcome: str) -> None:
        # One that was forgotten or cancelled meanwhile stays so.
        running, now_ms = having(id=bench_id, status=RUNNING), self._now_ms()
        self._database.freely.commit(
            lambda transaction: BENCHES.update(transaction, running, finished_at_ms=now_ms, **outcome)
        )

    def _one(self, transaction: Transaction, bench_id: str, asker: Asker) -> KnownBench:
        found = BENCHES.first(transaction, owned_by(asker) & having(id=bench_id))
        if found is None:
            raise BenchNotFoundError(bench_id)
        return self._known(found)

    def _known(self, bench: KnownBench) -> KnownBench:
        if bench.status == RUNNING and bench.told_at_ms < self._lost_before_ms():
            return replace(bench, status=FAILED, message=LOST, finished_at_ms=bench.told_at_ms)
        return bench

    def _lost_before_ms(self) -> int:
        return self._now_ms() - round(LOST_AFTER_SECONDS * 1e3)


class _EndedError(Exception):
    """The measurement was cancelled, or the service ends."""


@dataclass
class BenchRunner:
    """Starts measurements and carries them out, one at a time in the whole service.

    `documents` are those that query sets judge, `oracles` those that are measured, alone and fused; `fusion` is the
    service's own.
    """

    engine: SearchEngine
    judgements: Judgements
    benches: StoredBenches
    documents: StoredDocuments
    fusion: str
    oracles: Sequence[str] = (SemanticOracle.name, LexicalOracle.name)
    _stopping: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def start(self, collection: str, *, asker: Asker, query_set: QuerySetFiles | None = None) -> KnownBench:
        """Begin to measure a collection with a query set, by default the asker's judged questions, and return the
        measurement, which works on with the rights of the caller of now, as long as they have them.

        Raises NothingJudgedError, InvalidQuerySetError, BenchRunningError and NoThreadError.
        """
        if query_set is None:
            questions = self._judged(collection, asker)
        elif not (questions := self._of_documents_here(queries_in(query_set), collection)):
            raise NothingJudgedError(collection)
        available = self.engine.available()
        oracles = [name for name in self.oracles if name in available]
        runs = len(oracles) + (len(FUSIONS) if len(oracles) > 1 else 0)
        begun = self.benches.begin(collection, len(questions), (runs + 1) * len(questions), asker=asker)
        try:
            self._thread = begin_thread("bench", carried(self._measure), begun, questions, oracles)
        except NoThreadError as error:
            self.benches.fail(begun.id, error.message)
            raise
        return begun

    def judged_set(self, collection: str, *, asker: Asker) -> tuple[Sequence[Query], Iterator[tuple[str, str, str]]]:
        """Return the asker's judged questions about a collection, and (id, title, text) of the judged documents that
        are still there. Raises NothingJudgedError."""
        questions = self._judged(collection, asker)
        ids = dict.fromkeys(document_id for each in questions for document_id in each.judgements)
        return questions, self._judged_documents(collection, ids)

    def _judged_documents(self, collection: str, ids: Iterable[str]) -> Iterator[tuple[str, str, str]]:
        for each in ids:
            with suppress(NotFoundError):
                known, chunks = self.documents.with_chunks(each, collection)
                yield each, known.title, joined_text([chunk.text for chunk in chunks], range(len(chunks)))

    def _judged(self, collection: str, asker: Asker) -> tuple[Query, ...]:
        questions = self.judgements.questions(collection, asker=asker)
        if not questions:
            raise NothingJudgedError(collection)
        return questions

    def _of_documents_here(self, questions: tuple[Query, ...], collection: str) -> tuple[Query, ...]:
        """Return the questions, or none when the collection has no document of the first that are relevant to them:
        then they are about other documents, and the figures would say nothing."""
        relevant = (each for asked in questions for each, score in asked.judgements.items() if score > 0)
        for document_id in islice(dict.fromkeys(relevant), MOST_LOOKED_FOR):
            with suppress(NotFoundError):
                self.documents.one(document_id, collection)
                return questions
        return ()

    def close(self) -> None:
        """End the measurement that runs here, if there is one."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def _measure(self, begun: KnownBench, questions: tuple[Query, ...], oracles: Sequence[str]) -> None:
        done = 0

        def on_query(_: str) -> None:
            nonlocal done
            done += 1
            if self._stopping.is_set() or not self.benches.tell(begun.id, done):
                raise _EndedError
            with acting_still():
                pass

        bench = Bench(self.engine, questions, begun.collection, DEFAULT_RESULTS, self.fusion, on_query=on_query)
        try:
            # A first time, so that each question has been embedded before any run is measured.
            bench.warm_up(oracles)
            self.benches.finish(begun.id, result_of(bench.runs(oracles)))
        except _EndedError:
            self.benches.fail(begun.id, "The service was stopped")  # unless it was cancelled
        except RagError as error:
            self.benches.fail(begun.id, error.message)
        except Exception:
            log.exception("a measurement failed", bench=begun.id)
            self.benches.fail(begun.id, "An unexpected failure, which the log tells")


def result_of(runs: Sequence[Run]) -> Mapping[str, Any]:
    """Return the figures of runs, and of each question in each run, the best run first: the one that is fused."""
    ordered = sorted(runs, key=lambda run: run.name != FUSED)
    return {
        "runs": [
            {
                "name": run.name,
                "oracles": list(run.oracles),
                "fusion": run.fusion if len(run.oracles) > 1 else None,
                **_rounded(asdict(run.quality)),
                "latency_ms": _rounded(run.latencies_ms(50, 95)),
                "failures": run.failures,
            }
            for run in ordered
        ],
        "questions": [
            {
                "question": asked.query.text,
                "relevant": sum(grade > 0 for grade in asked.query.judgements.values()),
                "runs": {
                    run.name: {
                        **_rounded(asdict(run.asked[place].quality)),
                        "latency_ms": round(run.asked[place].latency_ms, 1),
                    }
                    for run in ordered
                },
            }
            for place, asked in enumerate(ordered[0].asked)
        ],
    }


def _rounded(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in figures.items()}
