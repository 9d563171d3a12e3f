"""Ranks what the oracles of a search have found: fuses, smooths, judges, reranks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import structlog

from providers.outbound import deadlines
from registry.embedding.queries import QueryEmbedding
from retrieval.search.fusion import Fusion, key_of, passage_of
from retrieval.search.judging import PassageVectors, Threshold, smooth, with_relevance
from retrieval.search.oracles.base import COSINE
from retrieval.search.plan import Found, Plan
from retrieval.search.relevance import AllWords, WordsFound
from retrieval.search.reranking import RERANKED, Reranking
from retrieval.search.smoothing import SMOOTHED as SMOOTHED_FIRST
from retrieval.search.smoothing import WordSimilarity
from schemas.contracts.search import MAX_PER_DOCUMENT, FusedResult, SearchRequest
from schemas.errors import RagError
from schemas.ways import RRF, SMOOTHED

log = structlog.get_logger(__name__)


class Ranker:
    """Ranks the findings of searches; safe for use by several threads. `min_relevance` is that of requests that name
    none; with None for it, it is the embedding model's. `measures` are what the oracles measure."""

    def __init__(
        self,
        measures: Mapping[str, str],
        reranking: Reranking,
        *,
        rrf_k: int,
        min_relevance: float | None,
    ) -> None:
        self._measures = measures
        self._reranking = reranking
        self._rrf_k = rrf_k
        self._min_relevance = min_relevance
        self._words = WordSimilarity()

    def rank(self, plan: Plan, found: Found) -> None:
        """Order what the oracles found, judge its relevance where that can be told, and have the best reranked."""
        with deadlines.within(max(0.0, plan.until - time.monotonic())):
            fusion = self._fusion(plan, found)
            fused = fusion.results()
            asked = self._embeddings_of(plan, fused[:SMOOTHED_FIRST])
            vectors = PassageVectors(plan.question.corpus, found.rankings.values(), asked)
            found.candidates = found.passing = self._in_order(fusion, fused, vectors, plan, found)
            if asked:
                nearest = next((each for name, each in found.rankings.items() if self._measures[name] == COSINE), fused)
                words = WordsFound.of(plan.question.text, nearest)
                threshold = self._threshold(plan.request, asked)
                found.candidates = with_relevance(found.candidates, vectors, asked, words)
                found.passing = [each for each in found.candidates if threshold.passes(each)]
                found.min_relevance = threshold.least
        found.max_per_document = self._most_of_document(plan.request, found)
        if plan.reranker is not None:
            best, found.reranked = self._reranking.reordered(
                plan.reranker, plan.request.query, found.passing, plan.until - time.monotonic()
            )
            found.reorder(best)

    def _fusion(self, plan: Plan, found: Found) -> Fusion:
        documents = {key_of(each) for results in found.rankings.values() for each in results}
        is_by_passage = plan.request.by_passage or len(documents) == 1
        return Fusion(
            found.rankings,
            fusion=found.fusion,
            k=self._rrf_k,
            weights=plan.weights,
            measures=self._measures,
            unit=passage_of if is_by_passage else key_of,
        )

    def _in_order(
        self, fusion: Fusion, fused: list[FusedResult], vectors: PassageVectors, plan: Plan, found: Found
    ) -> list[FusedResult]:
        """Return all candidates, best first: the first documents smoothed if asked to, with further passages of those
        that may be hits. Of equal ones the best passage of a document comes before further ones of another."""
        first, rest = fused[:SMOOTHED_FIRST], fused[SMOOTHED_FIRST:]
        if found.fusion == SMOOTHED:
            first, found.compared_by = smooth(first, vectors.of(first), plan.question.corpus, self._words)
        shown = max(plan.request.limit, RERANKED if plan.reranker else 0)
        others = [other for each in first[:shown] for other in fusion.others(each)]
        by_ranks = found.fusion == RRF
        return [*sorted([*first, *others], key=lambda each: -(each.rrf_score if by_ranks else each.score)), *rest]

    def _most_of_document(self, request: SearchRequest, found: Found) -> int | None:
        if request.by_passage or request.max_per_document is not None:
            return request.max_per_document
        return MAX_PER_DOCUMENT if len({key_of(each) for each in found.passing}) > 1 else None

    def _embeddings_of(self, plan: Plan, first: Sequence[FusedResult]) -> dict[str, QueryEmbedding]:
        """Return the embedded question by collection, as far as a model could read it. Where no oracle wanted it, it is
        embedded only for a request that says how relevant hits must be."""
        found, question, asked = {}, plan.question, plan.question.embeddings
        assert asked is not None
        infos = question.corpus.existing(
            [*(each.name for each in question.collections), *(each.collection for each in first)]
        )
        for info in asked.as_embedded(infos, question.until) if plan.request.min_relevance else infos:
            embedded = asked.made_of(info)
            if plan.request.min_relevance:
                try:
                    embedded = asked.of(info)
                except RagError as error:
                    log.warning("no relevance", collection=info.name, reason=error.message)
            if embedded is not None and embedded.is_readable:
                found[info.name] = embedded
        return found

    def _threshold(self, request: SearchRequest, asked: Mapping[str, QueryEmbedding]) -> Threshold:
        if request.min_relevance is not None:
            return Threshold(request.min_relevance)
        if self._min_relevance is not None:
            return Threshold(self._min_relevance, AllWords(request.query))
        usual = {name: each.connection.min_relevance or 0.0 for name, each in asked.items()}
        return Threshold(next(iter(usual.values())), AllWords(request.query), usual)
