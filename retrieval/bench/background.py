"""Measures the search of a running service with its judged questions, in a thread of one of its workers, and gives the
judged questions away as a query set."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import structlog

from retrieval.bench.judgements import Judgements
from retrieval.bench.query_set import Query, queries_in
from retrieval.bench.running import FUSED, Bench, Run
from retrieval.bench.stored_benches import StoredBenches
from retrieval.documents.stored_documents import StoredDocuments
from retrieval.search.engine import SearchEngine
from retrieval.search.oracles.lexical import LexicalOracle
from retrieval.search.oracles.semantic import SemanticOracle
from schemas.access.callers import acting_still, carried
from schemas.access.owners import Asker
from schemas.bounds import DEFAULT_RESULTS
from schemas.contracts.judgements import KnownBench, NothingJudgedError, QuerySetFiles
from schemas.errors import NotFoundError, NoThreadError, RagError
from schemas.storage.joined_text import joined_text
from schemas.threads import begin_thread
from schemas.ways import FUSIONS

log = structlog.get_logger(__name__)

MOST_LOOKED_FOR = 100
"""The number of documents of a query set that are looked for."""
STOP_SECONDS = 70.0
"""How long a search that is under way may take to end."""


class _EndedError(Exception):
    """The measurement was cancelled, or the service ends."""


class JudgedDocument(NamedTuple):
    id: str
    title: str
    text: str


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

    def judged_set(self, collection: str, *, asker: Asker) -> tuple[Sequence[Query], Iterator[JudgedDocument]]:
        """Return the asker's judged questions about a collection, and the judged documents that are still there. Raises
        NothingJudgedError."""
        questions = self._judged(collection, asker)
        ids = dict.fromkeys(document_id for each in questions for document_id in each.judgements)
        return questions, self._judged_documents(collection, ids)

    def _judged_documents(self, collection: str, ids: Iterable[str]) -> Iterator[JudgedDocument]:
        for each in ids:
            with suppress(NotFoundError):
                known, chunks = self.documents.with_chunks(each, collection)
                text = joined_text([chunk.text for chunk in chunks], range(len(chunks)))
                yield JudgedDocument(each, known.title, text)

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
