"""Reranking: a second look at texts that have been found, by a reranking model or, without one, by their neighbours."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
import structlog

from providers.embeddings.base import EmbeddingProvider
from providers.outbound import deadlines
from providers.outbound.refusals import RefusedTextsError
from providers.rerank.base import RerankProvider, UnusableScoreError
from registry.connection_threads import ConnectionThreads
from registry.connections import Connections
from registry.embedding.metering import Metered, unmetered
from registry.embedding.queries import USUAL
from retrieval.asking import ask_within
from retrieval.clock import milliseconds_since
from retrieval.failures import embedding_errors
from retrieval.ingest.drafts import text_with_heading
from retrieval.search.smoothing import SMOOTHED, WordSimilarity, cosines, smoothed
from schemas.access.callers import check_acting
from schemas.access.turns import waiting_for
from schemas.contracts.rerank import RerankAnswer, Reranked, RerankRequest
from schemas.contracts.search import FAILED, OK, FusedResult, RerankReceipt
from schemas.errors import RagError, UnauthorizedError

log = structlog.get_logger(__name__)

CONFIGURED = "rerank"
"""The connection that the operator's settings describe, where they do."""
RERANKED = 100
"""The number of results of a search that a connection is asked about, the best ones."""


class Reranking:
    """Puts texts in the order in which they answer a question; safe for use by several threads."""

    def __init__(self, connections: Connections, metered: Metered = unmetered) -> None:
        self._connections = connections
        self._metered = metered
        self._words = WordSimilarity()
        # Not in the threads of searches, which a connection that hangs must not hold beyond their limit.
        self._threads = ConnectionThreads("rerank")

    def close(self) -> None:
        self._threads.close()

    def connection_of(self, asked: str | None, *, field: str = "connection") -> str | None:
        """Return the connection that is asked when a request names this one in that field: by default the operator's,
        None where there is none.

        Raises ConnectionNotFoundError for a name that is not known, ConflictError for a connection of another type.
        """
        if asked is None:
            known = [each.id for each in self._connections.all() if each.kind == "rerank"]
            return CONFIGURED if CONFIGURED in known else None
        return self._connections.named(asked, "rerank", field=field).id

    def rerank(self, request: RerankRequest) -> RerankAnswer:
        """Return the best documents first; equal ones stay in their order.

        Raises what `connection_of` and `RerankProvider.rerank` raise, or EmbeddingFailureError when the documents
        cannot be embedded.
        """
        connection = self.connection_of(request.connection)
        texts = [each.text for each in request.documents]
        asked = USUAL if connection is None else connection
        try:
            with waiting_for(lambda: self._connections.elsewhere([asked])):
                if connection is None:
                    scores = self.local_scores(request.query, texts)
                else:
                    scores = self.scores(connection, request.query, texts)
        except RefusedTextsError as error:
            raise error.moved(texts, field="documents") from error
        except UnusableScoreError as error:
            raise error.among(texts, "documents") from error
        scored = enumerate(zip(request.documents, scores, strict=True), start=1)
        found = [Reranked(document.id, score, rank) for rank, (document, score) in scored]
        return RerankAnswer(sorted(found, key=lambda each: -each.score)[: request.top_k], connection)

    def reordered(
        self, connection: str, query: str, results: Sequence[FusedResult], within_seconds: float
    ) -> tuple[list[FusedResult], RerankReceipt]:
        """Return the first results of a search in the order of a connection, and a record of how it was asked.

        When it gives no usable order in time, they are returned as they are; those without a score, which the model
        refuses or fails for, keep their places; the record says why. Raises UnauthorizedError when the caller may not
        go on; it is not asked then.
        """
        first = list(results[:RERANKED])
        began = time.perf_counter()
        scores: Sequence[float | None]
        refusal = None
        try:
            scores = self._scores_of(connection, query, first, within_seconds)
        except UnauthorizedError:
            raise
        except RefusedTextsError as error:
            log.warning("some results are not reranked", connection=connection, results=sorted(error.refused))
            scores, refusal = [error.accepted.get(place) for place in range(len(first))], error.message
        except RagError as error:
            log.warning("no reranking", connection=connection, reason=error.message)
            return first, RerankReceipt(connection, FAILED, 0, milliseconds_since(began), error.message)
        scored = [replace(each, rerank_score=score) for each, score in zip(first, scores, strict=True)]
        best = [each for each in scored if each.rerank_score is not None]
        best.sort(key=lambda each: each.rerank_score or 0.0, reverse=True)
        following = iter(best)
        order = [each if each.rerank_score is None else next(following) for each in scored]
        return order, RerankReceipt(connection, OK, len(best), milliseconds_since(began), refusal)

    def scores(self, connection: str, query: str, texts: Sequence[str]) -> list[float]:
        """Return the score of each text by a connection. Raises what `RerankProvider.rerank` raises, or
        ConfigurationError when the connection cannot be used."""
        provider = cast(RerankProvider, self._connections.open(connection, "rerank"))
        return provider.rerank(query, texts)

    def local_scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each text without a reranking model: its cosine with the question, smoothed among the
        texts that are like it.

        Only the first 100 by cosine are smoothed; none of the others has more than the least of them. Raises
        RefusedTextsError with the places of the texts.
        """
        asked = [query, *texts]
        with embedding_errors():
            provider = cast(EmbeddingProvider, self._connections.open(USUAL, "embedding"))
            try:
                vectors = self._metered(provider, asked, lambda: provider.embed(asked))
            except RefusedTextsError as error:
                if 0 in error.refused:
                    raise error.refused[0] from error
                raise error.moved(texts, by=-1) from error
        own = cosines(list(vectors))[0, 1:].astype(np.float64)
        first = np.argsort(-own, kind="stable")[:SMOOTHED]
        similar = self._words.of([texts[position] for position in first])
        similar = (similar + cosines([vectors[1 + position] for position in first])) * np.float32(0.5)
        scores = smoothed(own[first].tolist(), similar)
        found = np.minimum(own, scores.min())
        found[first] = scores
        return cast(list[float], found.tolist())

    def _scores_of(
        self, connection: str, query: str, results: Sequence[FusedResult], within_seconds: float
    ) -> list[float]:
        texts = [text_with_heading(each.content, each.metadata) for each in results]

        def ask() -> list[float]:
            check_acting()  # before a model is told of documents: finding them, and this turn, may have taken long
            with deadlines.few_calls():
                return self.scores(connection, query, texts)

        return ask_within(max(0.0, within_seconds), partial(self._threads.submit, connection), ask)().get()
