"""The collector: asks several collections with the right words, and judges what they say (seed 003, "Hybrid Query
Strategy for Contextual Continuity").

The text to ask with is embedded once for each embedding connection and model; the collections are asked in parallel and
judged in the order given. One that fails is left out and named in the receipt.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTimeError
from dataclasses import dataclass
from typing import cast

import structlog

from providers.base import RagProvider, SupportsSearch
from registry.connections import Connections
from registry.query_embeddings import QueryEmbedding, QueryEmbeddings
from registry.query_text import choose_query_text
from schemas.collected import (
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
from schemas.connections import CollectionInfo
from schemas.errors import RagError, UnavailableError
from schemas.records import Match, Metadata

log = structlog.get_logger(__name__)

PARALLEL = 32
"""Collections that one worker asks at a time, for all its requests."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Distances; a document is a match, or a partial match, when it is nearer."""

    match: float
    partial: float


@dataclass(frozen=True, slots=True)
class _Asked:
    """One collection's answer: nearest first, in the collection's metric."""

    info: CollectionInfo
    matches: list[Match]
    thresholds: Thresholds


class Collector:
    """Usable by several threads. `thresholds` apply where nobody else says any; `limit_seconds` bounds a query."""

    def __init__(
        self,
        connections: Connections,
        embeddings: QueryEmbeddings,
        *,
        thresholds: Thresholds,
        limit_seconds: float,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._connections = connections
        self._embeddings = embeddings
        self._thresholds = thresholds
        self._limit_seconds = limit_seconds
        self._clock = clock
        self._pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix="collect")
        self._embedding_pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix="embed")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._embedding_pool.shutdown(wait=False, cancel_futures=True)

    def collect(self, request: CollectRequest) -> Collected:
        """Ask all collections of a request. What fails for one collection is in the receipt; nothing is raised."""
        began = self._clock()
        strategy, text = choose_query_text(request.user_message, request.topic, request.current_topic)
        text = request.query_text or text
        log.info("query strategy", strategy=strategy.value, query_text=text, collections=len(request.collections))
        # A mapping by connection and model: each is embedded once, whatever number of collections wait for it.
        embeddings: dict[tuple[str, str | None], Future[QueryEmbedding]] = {}
        for selected in request.collections:
            connection_id, model = key = (selected.embedding_connection, selected.embedding_model)
            if key not in embeddings:
                embeddings[key] = self._embedding_pool.submit(self._embeddings.embed, connection_id, text, model)
        asked = [
            self._pool.submit(
                self._ask, request, selected, embeddings[selected.embedding_connection, selected.embedding_model]
            )
            for selected in request.collections
        ]
        until = began + self._limit_seconds
        answers = [
            self._judged(request, selected, answer, until)
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

    def _ask(
        self, request: CollectRequest, selected: SelectedCollection, embedding: Future[QueryEmbedding]
    ) -> tuple[_Asked | RagError, float]:
        """(the answer or what went wrong, milliseconds)."""
        began = self._clock()
        answer: _Asked | RagError
        try:
            answer = self._answer_of(request, selected, embedding)
        except RagError as error:
            answer = error
        except Exception:
            log.exception("a collection could not be asked", service=selected.service, collection=selected.name)
            answer = UnavailableError("The collection could not be asked for a reason that is in the log")
        return answer, round((self._clock() - began) * 1e3, 2)

    def _answer_of(
        self, request: CollectRequest, selected: SelectedCollection, embedding: Future[QueryEmbedding]
    ) -> _Asked:
        provider = cast(RagProvider, self._connections.open(selected.service, "rag"))
        search = self._connections.registry.require(provider, SupportsSearch)
        info = provider.collection(selected.name)
        embedded = embedding.result()
        embedded.check_fits(info)
        matches = search.search(selected.name, embedded.vector, top_k=request.top_k)
        return _Asked(info, matches, self._thresholds_for(request, info, provider))

    def _thresholds_for(self, request: CollectRequest, info: CollectionInfo, provider: RagProvider) -> Thresholds:
        """The collection's own come first, then the connection's, then the request's. 0 is a threshold."""

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
        answer: Future[tuple[_Asked | RagError, float]],
        until: float,
    ) -> tuple[CollectionReceipt, CollectedResult | None]:
        try:
            asked, latency_ms = answer.result(max(0.0, until - self._clock()))
        except NotInTimeError:
            answer.cancel()
            sentence = f"No answer within {self._limit_seconds:g} s"
            asked, latency_ms = UnavailableError(sentence), round(self._limit_seconds * 1e3, 2)
        if isinstance(asked, RagError):
            log.warning("collection left out", service=selected.service, collection=selected.name, reason=asked.message)
            failed = CollectionReceipt(selected.service, selected.name, FAILED, None, latency_ms, asked.message)
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
    """The fields that the collection's metadata names in `title_field` and `source_field`, else `title`, `source`."""
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


def _counted(
    request: CollectRequest, embeddings: dict[tuple[str, str | None], Future[QueryEmbedding]]
) -> tuple[int, int]:
    """(embeddings made for this query, collections served by one that was there)."""
    there = {
        key: each.result()
        for key, each in embeddings.items()
        if each.done() and not each.cancelled() and each.exception() is None
    }
    made = sum(embedded.generated for embedded in there.values())
    served = sum((each.embedding_connection, each.embedding_model) in there for each in request.collections)
    return made, served - made
