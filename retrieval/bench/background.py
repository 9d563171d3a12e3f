"""Measures the search of a running service with its judged questions, in a thread of one of its workers."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from typing import Any

import structlog

from retrieval.bench.judgements import Judgements
from retrieval.bench.query_set import Query, queries_in
from retrieval.bench.running import FUSED, Bench, Plan, Run
from retrieval.bench.stored_benches import StoredBenches
from retrieval.documents.stored_documents import StoredDocuments
from retrieval.search.engine import SearchEngine
from schemas.access.callers import acting_still, carried
from schemas.access.owners import Asker
from schemas.bounds import DEFAULT_RESULTS
from schemas.contracts.judgements import KnownBench, NothingJudgedError, QuerySetFiles
from schemas.errors import NotFoundError, NoThreadError, RagError
from schemas.threads import begin_thread
from schemas.ways import FUSIONS

log = structlog.get_logger(__name__)

MOST_LOOKED_FOR = 100
"""The number of documents of a query set that are looked for."""
STOP_SECONDS = 70.0
"""How long a search that is under way may take to end."""


class _EndedError(Exception):
    """The measurement was cancelled, or the service ends."""


class BenchRunner:
    """Starts measurements and carries them out, one at a time in the whole service.

    `documents` are those that query sets judge, `oracles` those that are measured, alone and fused; `fusion` is the
    service's own.
    """

    def __init__(
        self,
        engine: SearchEngine,
        judgements: Judgements,
        benches: StoredBenches,
        documents: StoredDocuments,
        *,
        oracles: Sequence[str],
        fusion: str,
    ) -> None:
        self._engine = engine
        self._oracles = oracles
        self._judgements = judgements
        self._benches = benches
        self._documents = documents
        self._fusion = fusion
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, collection: str, *, asker: Asker, query_set: QuerySetFiles | None = None) -> KnownBench:
        """Begin to measure a collection with a query set, by default the asker's judged questions, and return the
        measurement, which works on with the rights of the caller of now, as long as they have them.

        Raises NothingJudgedError, InvalidQuerySetError, BenchRunningError and NoThreadError.
        """
        if query_set is None:
            questions = self._judgements.questions(collection, asker=asker)
        else:
            questions = self._of_documents_here(queries_in(query_set), collection)
        if not questions:
            raise NothingJudgedError(collection)
        available = self._engine.available()
        oracles = [name for name in self._oracles if name in available]
        runs = len(oracles) + (len(FUSIONS) if len(oracles) > 1 else 0)
        begun = self._benches.begin(collection, len(questions), (runs + 1) * len(questions), asker=asker)
        try:
            self._thread = begin_thread("bench", carried(self._measure), begun, questions, oracles)
        except NoThreadError as error:
            self._benches.fail(begun.id, error.message)
            raise
        return begun

    def _of_documents_here(self, questions: tuple[Query, ...], collection: str) -> tuple[Query, ...]:
        """Return the questions, or none when the collection has no document of the first that are relevant to them:
        then they are about other documents, and the figures would say nothing."""
        relevant = (each for asked in questions for each, score in asked.judgements.items() if score > 0)
        for document_id in islice(dict.fromkeys(relevant), MOST_LOOKED_FOR):
            with suppress(NotFoundError):
                self._documents.one(document_id, collection)
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
            if self._stopping.is_set() or not self._benches.tell(begun.id, done):
                raise _EndedError
            with acting_still():
                pass

        bench = Bench(self._engine, questions, Plan(begun.collection, DEFAULT_RESULTS, self._fusion), on_query=on_query)
        try:
            # A first time, so that each question has been embedded before any run is measured.
            bench.warm_up(oracles)
            self._benches.finish(begun.id, result_of(bench.runs(oracles)))
        except _EndedError:
            self._benches.fail(begun.id, "The service was stopped")  # unless it was cancelled
        except RagError as error:
            self._benches.fail(begun.id, error.message)
        except Exception:
            log.exception("a measurement failed", bench=begun.id)
            self._benches.fail(begun.id, "An unexpected failure, which the log tells")


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
                "latency_ms": _rounded(
                    {"p50": run.latency_ms(50), "p95": run.latency_ms(95), "mean": run.mean_latency_ms}
                ),
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
