"""Ranks what the oracles of a search have found: fuses, smooths, judges, reranks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import structlog

from providers.outbound import deadlines
from registry.embedding.queries import QueryEmbedding
from retrieval.search.fusion import Fusion, key_of, passage_of
from retrieval.search.hits import MAX_JOINED
from retrieval.search.judging import PassageVectors, Threshold, smooth, with_relevance
from retrieval.search.oracles.base import COSINE
from retrieval.search.plan import Found, Plan
from retrieval.search.relevance import AllWords, WordsFound
from retrieval.search.reranking import RERANKED, Reranking
from retrieval.search.smoothing import SMOOTHED as FIRST
from retrieval.search.smoothing import WordSimilarity
from schemas.contracts.search import FusedResult, SearchRequest
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
        """Fuse what the oracles found, smooth the scores of the first documents if asked to, put their further passages
        beside them, judge their relevance where it can be told, and have the best reranked."""
        request, question, rankings = plan.request, plan.question, found.rankings
        by_ranks = found.fusion == RRF
        documents = {key_of(each) for results in rankings.values() for each in results}
        most = found.max_per_document = request.max_per_document if len(documents) > 1 else None
        fusion = Fusion(
            rankings,
            fusion=found.fusion,
            k=self._rrf_k,
            weights=plan.weights,
            measures=self._measures,
            unit=passage_of if most is None else key_of,
        )
        fused = fusion.results()
        first, rest = fused[:FIRST], fused[FIRST:]
        with deadlines.within(max(0.0, plan.until - time.monotonic())):
            asked = self._embeddings_of(plan, first)
            vectors = PassageVectors(question.corpus, rankings.values(), asked)
            if found.fusion == SMOOTHED:
                first, found.compared_by = smooth(first, vectors.of(first), question.corpus, self._words)
            if most is not None:
                # Further ones could not come before those that are asked for.
                shown = max(request.limit, RERANKED if plan.reranker else 0)
                others = [other for each in first[:shown] for other in fusion.others(each)[: MAX_JOINED * most - 1]]
                # Of equal ones the best passage of a document comes before further ones of another.
                first = sorted([*first, *others], key=lambda each: -(each.rrf_score if by_ranks else each.score))
            if asked:
                nearest = next((each for name, each in rankings.items() if self._measures[name] == COSINE), None)
                words = WordsFound.of(question.text, fused if nearest is None else nearest)
                first = with_relevance(first, vectors, asked, words)
        found.candidates = found.passing = [*first, *rest]
        if asked:
            threshold = self._threshold(request, asked)
            found.passing = [each for each in found.candidates if threshold.passes(each)]
            found.min_relevance = threshold.least
        if plan.reranker is not None:
            best, found.reranked = self._reranking.reordered(
                plan.reranker, request.query, found.passing, plan.until - time.monotonic()
            )
            found.reorder(best)

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
