"""The search engine: several oracles answer a question at once, and their answers are fused.

The contract *search* calls this "Parallel Query Execution". Whatever answers a question from text calls
`SearchEngine.search`, and so does the benchmark: the same question has the same answer, whoever asks.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from registry.embedding.queries import AskedEmbeddings
from retrieval.failures import store_errors
from retrieval.search.answer_cache import AnswerCache
from retrieval.search.asking import (
    Found,
    Plan,
    SearchFailedError,
    ask,
    asked_by_none,
    failure_of,
    receipt_of,
    weights_of,
)
from retrieval.search.corpus import Chosen, CollectionChoice
from retrieval.search.explaining import Explainer
from retrieval.search.hits import gather_groups, hits_of
from retrieval.search.oracles.base import COSINE, Oracle, Question
from retrieval.search.ranking import Ranker
from retrieval.search.reranking import Reranking
from schemas.access.turns import waiting_for
from schemas.bounds import MAX_RESULTS
from schemas.contracts.search import FusedResult, SearchAnswer, SearchReceipt, SearchRequest, check_text, searchable
from schemas.errors import CollectionNotFoundError, InvalidInputError
from schemas.giving_way import QUESTIONS
from schemas.settings import RetrievalSettings
from schemas.storage.erasure_count import UNKNOWN
from schemas.ways import RRF
from schemas.where import to_json

log = structlog.get_logger(__name__)

PARALLEL = 48
"""The number of questions that one oracle of one worker answers at a time, over all requests: as many as the lanes let
in by default, so that those who wait for a service that hangs leave threads to the others."""
MAX_FETCHED = 1_000
"""The most results that an oracle is asked for."""
SEMANTIC = "semantic"
"""The oracle by meaning."""


class SearchEngine:
    """A search over several oracles, usable by several threads: it plans, asks, ranks and answers.

    `choice` says which collections a request means, and `embed` gives the embeddings of its question. Each oracle is
    asked for `fetch_multiplier` times the limit, and for `fetch_min` at least: with k = 60 a document down to rank 61
    of two lists is above the first of only one, so a low limit must not hide what the oracles agree on. `reranking`
    puts the best in another order where a request asks for it. `cache` keeps the answers of requests that want it.
    """

    def __init__(
        self,
        oracles: Sequence[Oracle],
        choice: CollectionChoice,
        settings: RetrievalSettings,
        *,
        embed: Callable[[str], AskedEmbeddings],
        reranking: Reranking,
        cache: AnswerCache | None = None,
    ) -> None:
        self._oracles = {oracle.name: oracle for oracle in oracles}
        # Each has threads of its own: an oracle that hangs keeps nobody from asking the others.
        self._pools = {name: ThreadPoolExecutor(PARALLEL, thread_name_prefix=name) for name in self._oracles}
        self._ranker = Ranker({oracle.name: oracle.measure for oracle in oracles}, reranking, settings)
        self._choice = choice
        self._settings = settings
        self._embed = embed
        self._reranking = reranking
        self._cache = cache

    def close(self) -> None:
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    @property
    def names(self) -> list[str]:
        """The names of all oracles."""
        return list(self._oracles)

    def available(self) -> list[str]:
        """Return the names of the oracles that have anything to answer from now."""
        corpus = self._choice.corpus.open()
        return [name for name, oracle in self._oracles.items() if oracle.is_available(corpus)]

    def search(self, request: SearchRequest) -> SearchAnswer:
        """Return the best passages by all oracles.

        The receipt names an oracle that failed while others answered. Raises SearchFailedError when none can answer, or
        only in notes while no collection could be asked. When each fails for one reason it is that one:
        TooManyRequestsError, EmbeddingMismatchError, TooSlowError or InvalidInputError. Raises InvalidInputError,
        CollectionNotFoundError for a collection that the request names in full, what `Reranking.connection_of`
        raises for the connection that it names, and BusyError when too many wait for the connections that it asks.
        """
        with QUESTIONS.answering():
            plan = self._plan(request)
            cached, began_at = self._cached(plan)
            if cached is not None:
                return cached
            with waiting_for(partial(self._services, plan)):
                plan = plan.begun()
                found = self._ask(plan)
                self._ranker.rank(plan, found)
                return self._answer(plan, found, began_at)

    def _plan(self, request: SearchRequest) -> Plan:
        check_text(request.query)
        text = searchable(request.query)
        for name, value in (("limit", request.limit), ("max_per_document", request.max_per_document)):
            if value is not None and not 1 <= value <= MAX_RESULTS:
                raise InvalidInputError(f"{name} must be between 1 and {MAX_RESULTS}", field=name, code="invalid_field")
        weights = weights_of(request, self._oracles)
        reranker = None if request.rerank is None else self._reranking.connection_of(request.rerank, field="rerank")
        chosen = self._collections_of(request)
        limit_seconds = self._settings.retrieve_seconds if request.limit_seconds is None else request.limit_seconds
        question = Question(
            text,
            chosen.corpus,
            chosen.asked,
            request.where,
            asker=request.asker,
            embeddings=self._embed(text),
        )
        fetched = min(MAX_FETCHED, max(self._settings.fetch_min, request.limit * self._settings.fetch_multiplier))
        return Plan(request, question, chosen, weights, reranker, fetched, limit_seconds)

    def _services(self, plan: Plan) -> list[str]:
        """Return the connections to other services that are asked."""
        by_meaning = plan.request.min_relevance or any(self._oracles[each].measure == COSINE for each in plan.weights)
        reranker = [plan.reranker] if plan.reranker else []
        return [*self._choice.elsewhere(plan.chosen.asked if by_meaning else ()), *reranker]

    def _cached(self, plan: Plan) -> tuple[SearchAnswer | None, int]:
        """Return the cached answer to a request that wants one, and the count of erasures before another is made."""
        if not plan.is_cacheable or self._cache is None:
            return None, UNKNOWN
        cached, began_at = self._cache.find(self._cache_key(plan), plan.chosen)
        if cached is None:
            return None, began_at
        receipt = self._receipt(plan, Found({}, {}, RRF))
        return SearchAnswer(cached.results, receipt, id=cached.id, is_cached=True), began_at

    def _cache_key(self, plan: Plan) -> list[Any]:
        request = plan.request
        return [
            *(request.cached_for, request.query, request.limit, dict(plan.weights), to_json(request.where) or None),
            *(request.fusion, request.min_relevance, request.max_per_document, request.by_passage, plan.reranker),
            self._choice.models_of(plan.chosen.asked),
        ]

    def _ask(self, plan: Plan) -> Found:
        """Ask the oracles, all at the same time, until the request's time is over."""
        outcomes = ask(plan, self._oracles, self._pools)
        # There is nothing to fuse in the answer of a single oracle: its order stays.
        fusion = (plan.request.fusion or self._settings.fusion) if len(outcomes) > 1 else RRF
        found = Found(outcomes, asked_by_none(plan.chosen, outcomes, self._oracles), fusion)
        if found.failed and (not found.rankings or len(found.not_asked) == len(plan.chosen.asked) > 0):
            raise failure_of(found.failed)
        return found

    def _answer(self, plan: Plan, found: Found, began_at: int) -> SearchAnswer:
        request, corpus = plan.request, plan.chosen.corpus
        results, held_back = hits_of(found.passing, request.limit, found.max_per_document, joins=request.joins)
        receipt = self._receipt(plan, found, held_back)
        log.info("search", oracles={name: each.status for name, each in receipt.oracles.items()}, results=len(results))
        is_whole = not found.not_asked and not any(each.left_out for each in receipt.oracles.values())
        if plan.is_cacheable and self._cache is not None and is_whole and not found.failed:
            kept = self._cache.keep(self._cache_key(plan), plan.chosen, results, since=began_at)
            return SearchAnswer(kept.results, receipt, id=kept.id)
        explanations = None
        if request.explain:
            explainer = Explainer(plan, found, receipt, results)
            explanations = explainer.of(request.explain) if isinstance(request.explain, tuple) else explainer.cut()
        groups = None if request.gather is None else gather_groups(corpus, results, request.gather)
        return SearchAnswer(results, receipt, groups, explanations, str(uuid.uuid4()))

    def _receipt(self, plan: Plan, found: Found, held_back: int = 0) -> SearchReceipt:
        own = [name for oracle in plan.asked for name in self._oracles[oracle].own_collections]
        notes = [each.name for each in plan.chosen.corpus.existing(own) if each.count != 0]
        return SearchReceipt(
            oracles={name: receipt_of(outcome) for name, outcome in found.outcomes.items()},
            rrf_k=self._settings.rrf_k,
            fetch_multiplier=self._settings.fetch_multiplier,
            fetched=plan.fetched,
            weights=plan.weights,
            collections=plan.chosen.receipt.without(found.not_asked).with_asked(notes),
            fusion=found.fusion,
            compared_by=found.compared_by,
            min_relevance=found.min_relevance,
            below_min_relevance=len(found.candidates) - len(found.passing),
            max_per_document=found.max_per_document,
            held_back=held_back,
            rerank=found.reranked,
            asked_text=None if plan.question.text == plan.request.query else plan.question.text,
            indexed=sum(each.count or 0 for each in plan.chosen.asked),
            embedding_latency_ms=None if plan.question.embeddings is None else plan.question.embeddings.latency_ms,
        )

    def _collections_of(self, request: SearchRequest) -> Chosen:
        try:
            return self._choice.choose(request.collections)
        except CollectionNotFoundError as error:
            index = (request.collections or ()).index(error.details["collection"])
            error.details |= {"field": "collections", "index": index}
            raise


def search_by_meaning(engine: SearchEngine, request: SearchRequest) -> SearchAnswer:
    """Return the answer to a request as contracts of retrieval by meaning want it: by that oracle alone, each passage
    for itself.

    Raises EmbeddingFailureError when the question cannot be embedded, VectorDBUnavailableError when the store fails,
    and the other errors of `SearchEngine.search`.
    """
    with store_errors():
        try:
            return engine.search(replace(request, oracles=(SEMANTIC,), by_passage=True, joins=False))
        except SearchFailedError as error:
            raise error.failures[SEMANTIC] from error


def cosine_of(result: FusedResult) -> float:
    """Return the score of a passage by meaning, in [0, 1]: its cosine where that is known, whatever found it."""
    if SEMANTIC in result.provenance and result.cosine is None:
        return result.provenance[SEMANTIC].score  # of a provider that tells no cosines
    return result.score if result.cosine is None else min(1.0, max(0.0, result.cosine))
