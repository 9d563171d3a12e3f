"""Query several collections with the right text and judge the answers (contract *storage*, "Hybrid Query Strategy for
Contextual Continuity").

The query text is embedded once for each embedding connection and model. The collections are queried in parallel and
judged in the order given. A collection that fails is left out and named in the receipt. Each connection has threads of
its own, and a call to it may take no longer than the query has left: a connection that hangs costs its own collections
and no others.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import structlog

from providers.base import RagProvider, SupportsMetadataFiltering, SupportsSearch
from providers.outbound import deadlines
from registry.connection_threads import ConnectionThreads
from registry.connections import Connections
from registry.embedding.queries import QueryEmbedding, QueryEmbeddings
from registry.embedding.searching import search_by
from registry.topics.query_text import choose_query_text
from schemas.access.callers import current
from schemas.access.turns import waiting_for
from schemas.connections import CollectionInfo
from schemas.contracts.collect import (
    FAILED,
    MATCH,
    NONE,
    PARTIAL,
    Collected,
    CollectedDocument,
    CollectedResult,
    CollectionReceipt,
    CollectReceipt,
    CollectRequest,
    SelectedCollection,
)
from schemas.errors import RagError, UnavailableError
from schemas.records import Match, Metadata
from schemas.storage import read_limits
from schemas.where import EVERYTHING, all_of

log = structlog.get_logger(__name__)

_Model = tuple[str, str | None]
"""An embedding connection, and the model to ask it for when that is not the connection's own."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Distances below which a document counts as a match or as a partial match."""

    match: float
    partial: float


@dataclass(frozen=True, slots=True)
class _Asked:
    """One collection's answer; `matches` are sorted nearest first, in the collection's metric."""

    info: CollectionInfo
    matches: list[Match]
    thresholds: Thresholds


class Collector:
    """Runs collect requests; safe for use by several threads.

    `thresholds` apply where neither collection, connection nor request sets any, and `limit_seconds` bounds a query.
    With `log_queries` off, the log has the strategy of a query but not its text.
    """

    def __init__(
        self,
        connections: Connections,
        embeddings: QueryEmbeddings,
        *,
        thresholds: Thresholds,
        limit_seconds: float,
        log_queries: bool = True,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._connections = connections
        self._embeddings = embeddings
        self._thresholds = thresholds
        self._limit_seconds = limit_seconds
        self._log_queries = log_queries
        self._clock = clock
        self._threads = ConnectionThreads("collect")

    def close(self) -> None:
        self._threads.close()

    def collect(self, request: CollectRequest) -> Collected:
        """Query all collections of a request; report failures in the receipt. Raises BusyError when too many wait for
        the connections that it asks."""

        def asked() -> list[str]:
            named = {name for each in request.collections for name in (each.service, each.embedding_connection)}
            return self._connections.elsewhere(named)

        with waiting_for(asked):
            return self._collect(request)

    def _collect(self, request: CollectRequest) -> Collected:
        began = self._clock()
        strategy, text = choose_query_text(request.user_message, request.topic, request.current_topic)
        text = request.query_text or text
        words = {"query_text": text} if self._log_queries else {}
        log.info("query strategy", strategy=strategy.value, collections=len(request.collections), **words)
        until = began + self._limit_seconds
        # Keyed by connection and model, so that each is embedded once however many collections wait for it.
        embeddings: dict[_Model, Future[QueryEmbedding]] = {}
        for selected in request.collections:
            model = (selected.embedding_connection, selected.embedding_model)
            if model not in embeddings:
                embeddings[model] = self._embedding(model, text, until)
        asked = [
            self._asked(request, each, embeddings[each.embedding_connection, each.embedding_model], until)
            for each in request.collections
        ]
        answers = [
            self._judged(request, selected, answer, began)
            for selected, answer in zip(request.collections, asked, strict=True)
        ]
        made, reused = _counted(request, embeddings)
        receipt = CollectReceipt(strategy.value, text, made, reused, [receipt for receipt, _ in answers])
        log.info("query embeddings", generated=made, reused=reused)
        results = [result for _, result in answers if result is not None]
        for result in results:
            if result.result_type == MATCH:
                return Collected(MATCH, [result], receipt)
        return Collected(PARTIAL if results else NONE, results, receipt)

    def _embedding(self, model: _Model, text: str, until: float) -> Future[QueryEmbedding]:
        connection_id, name = model

        def embed() -> QueryEmbedding:
            with self._time_until(until):
                return self._embeddings.embed(connection_id, text, name)

        return self._begun(("embedding", connection_id), embed)

    def _asked(
        self, request: CollectRequest, selected: SelectedCollection, embedding: Future[QueryEmbedding], until: float
    ) -> Future[tuple[_Asked, float]]:
        """Return a future of one collection's answer and the milliseconds it took.

        The collection is looked up while the text is embedded, and no thread blocks waiting for either.
        """
        began = self._clock()
        threads = ("rag", selected.service)
        # The storage of this service knows the caller's filter itself; of other services nobody else asks for it.
        where = all_of(current().where, request.where, selected.where)
        answer: Future[tuple[_Asked, float]] = Future()

        def look() -> tuple[RagProvider, CollectionInfo]:
            with self._time_until(until):
                provider = cast(RagProvider, self._connections.open(selected.service, "rag"))
                self._connections.registry.require(provider, SupportsSearch)
                if where != EVERYTHING:
                    self._connections.registry.require(provider, SupportsMetadataFiltering)
                return provider, provider.collection(selected.name)

        looked = self._begun(threads, look)

        def search() -> tuple[_Asked, float]:
            (provider, info), embedded = looked.result(), embedding.result()
            with self._time_until(until):
                searching = self._connections.registry.require(provider, SupportsSearch)
                matches, _ = search_by(embedded, searching, info, top_k=request.top_k, where=where)
            found = _Asked(info, matches, self._thresholds_for(request, info, provider))
            return found, round((self._clock() - began) * 1e3, 2)

        # It is begun by the thread that has finished the last of both, which works for nobody by then.
        searched = read_limits.awaited(search)
        _when_done((looked, embedding), lambda: _pass_on(self._begun(threads, searched), answer), answer)
        return answer

    def _begun(self, threads: tuple[str, str], work: Callable[[], Any]) -> Future[Any]:
        try:
            return self._threads.submit(threads, work)
        except RagError as error:
            refused: Future[Any] = Future()
            refused.set_exception(error)
            return refused

    @contextmanager
    def _time_until(self, until: float) -> Iterator[None]:
        """Bound calls to a connection by the time the query has left; raise UnavailableError when none is left."""
        seconds = self._seconds_to(until)
        if not seconds:
            raise self._too_late()
        with deadlines.within(seconds), read_limits.within(seconds):
            yield

    def _seconds_to(self, until: float) -> float:
        return max(0.0, until - self._clock())

    def _thresholds_for(self, request: CollectRequest, info: CollectionInfo, provider: RagProvider) -> Thresholds:
        """Return the collection's own thresholds, else the connection's, else the request's; 0 is a threshold."""

        def first(name: str, asked: float | None, usual: float) -> float:
            said = (_number(info.metadata.get(name)), _number(provider.config.get(name)), asked)
            return next((each for each in said if each is not None), usual)

        return Thresholds(
            first("match_threshold", request.match_threshold, self._thresholds.match),
            first("partial_threshold", request.partial_threshold, self._thresholds.partial),
        )

    def _judged(
        self,
        request: CollectRequest,
        selected: SelectedCollection,
        answer: Future[tuple[_Asked, float]],
        began: float,
    ) -> tuple[CollectionReceipt, CollectedResult | None]:
        in_time, _ = wait((answer,), self._seconds_to(began + self._limit_seconds))
        try:
            if not in_time:
                raise self._too_late()
            asked, latency_ms = answer.result()
        except Exception as error:
            reason = self._reason(selected, error)
            log.warning("collection left out", service=selected.service, collection=selected.name, reason=reason)
            latency_ms = round((self._clock() - began) * 1e3, 2)
            failed = CollectionReceipt(selected.service, selected.name, FAILED, None, latency_ms, reason)
            return failed, None
        distance = asked.matches[0].distance if asked.matches else None
        status = _status(distance, asked.thresholds)
        receipt = CollectionReceipt(selected.service, selected.name, status, distance, latency_ms)
        if distance is None or status == NONE:
            return receipt, None
        description = asked.info.metadata.get("description")
        result = CollectedResult(
            result_type=status,
            service=selected.service,
            collection=selected.name,
            documents=[_document(match, asked.info) for match in asked.matches],
            distance=distance,
            description=description if isinstance(description, str) else None,
        )
        return receipt, result

    def _too_late(self) -> UnavailableError:
        return UnavailableError(f"No answer within {self._limit_seconds:g} s", error_type="timeout")

    def _reason(self, selected: SelectedCollection, error: Exception) -> str:
        if isinstance(error, RagError):
            return error.message
        log.error("a collection could not be asked", service=selected.service, collection=selected.name, exc_info=error)
        return "The collection could not be asked for a reason that is in the log"


def _when_done(waited: Sequence[Future[Any]], then: Callable[[], None], answer: Future[Any]) -> None:
    """Call `then` when all have succeeded; make `answer` fail as soon as one has failed."""
    lock = threading.Lock()
    missing = len(waited)
    has_failed = False

    def one_is_done(done: Future[Any]) -> None:
        nonlocal missing, has_failed
        failed = done.cancelled() or done.exception() is not None
        with lock:
            missing -= 1
            is_first_failure, has_failed = failed and not has_failed, failed or has_failed
        if is_first_failure:
            _pass_on(done, answer)
        elif not missing and not has_failed:
            then()

    for each in waited:
        each.add_done_callback(one_is_done)


def _pass_on(source: Future[Any], answer: Future[Any]) -> None:
    """Copy the outcome of one future to the other when it is done."""

    def hand_over(done: Future[Any]) -> None:
        if done.cancelled():
            answer.cancel()
        elif (error := done.exception()) is not None:
            answer.set_exception(error)
        else:
            answer.set_result(done.result())

    source.add_done_callback(hand_over)


def _status(distance: float | None, thresholds: Thresholds) -> str:
    if distance is None:
        return NONE
    if distance < thresholds.match:
        return MATCH
    return PARTIAL if distance < thresholds.partial else NONE


def _document(match: Match, info: CollectionInfo) -> CollectedDocument:
    metadata = match.document.metadata
    title, source = _title_and_source(metadata, info.metadata)
    return CollectedDocument(match.document.id, match.document.text, title, source, metadata, info.name)


def _title_and_source(metadata: Metadata, collection: Metadata) -> tuple[str | None, str | None]:
    """Read the fields that the collection's metadata names in `title_field` and `source_field`; by default, `title`
    and `source`."""
    found: list[str | None] = []
    for setting, usual in (("title_field", "title"), ("source_field", "source")):
        named = collection.get(setting)
        value = metadata.get(named if isinstance(named, str) else usual)
        found.append(None if value is None else str(value))
    return found[0], found[1]


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _counted(request: CollectRequest, embeddings: dict[_Model, Future[QueryEmbedding]]) -> tuple[int, int]:
    """Return (embeddings made for this query, collections served by an embedding that existed already)."""
    there = {
        key: each.result()
        for key, each in embeddings.items()
        if each.done() and not each.cancelled() and each.exception() is None
    }
    made = sum(embedded.generated for embedded in there.values())
    served = sum((each.embedding_connection, each.embedding_model) in there for each in request.collections)
    return made, served - made
