"""The search engine: several oracles answer a question at once, and their answers are fused.

The contract *search* calls this "Parallel Query Execution". Every interface calls `SearchEngine.search`, and so does
the benchmark: the same question has the same answer, whoever asks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTimeError
from dataclasses import dataclass, replace
from types import MappingProxyType

import structlog

from providers.outbound import deadlines
from registry.embedding.queries import AskedEmbeddings, EmbeddingMismatchError, QueryEmbedding
from retrieval.search.choosing import Chosen, CollectionChoice
from retrieval.search.explaining import Explainer
from retrieval.search.fusion import fuse, key_of
from retrieval.search.gathering import gather_groups
from retrieval.search.judging import Candidates, Threshold
from retrieval.search.oracles.base import Oracle, Question
from retrieval.search.relevance import AllWords, WordsFound
from retrieval.search.reranking import Reranking
from retrieval.search.smoothing import SMOOTHED as FIRST
from retrieval.search.smoothing import WordSimilarity
from schemas.access.turns import waiting_for
from schemas.bounds import MAX_RESULTS
from schemas.contracts.search import (
    FAILED,
    MAX_WEIGHT,
    OK,
    UNAVAILABLE,
    FusedResult,
    OracleAnswer,
    OracleReceipt,
    OracleResult,
    SearchAnswer,
    SearchReceipt,
    SearchRequest,
    check_query,
)
from schemas.errors import (
    CollectionNotFoundError,
    InvalidInputError,
    RagError,
    TooManyRequestsError,
    TooSlowError,
    UnavailableError,
)
from schemas.names import matches_pattern
from schemas.observing import spans
from schemas.storage import read_limits
from schemas.ways import RRF, SMOOTHED

log = structlog.get_logger(__name__)

PARALLEL = 48
"""The number of questions that one oracle of one worker answers at a time, over all requests: as many as the lanes let
in by default, so that those who wait for a service that hangs leave threads to the others."""
MAX_FETCHED = 1_000
"""The most results that an oracle is asked for."""
UNWEIGHTED: Mapping[str, float] = MappingProxyType({})


class UnknownOracleError(InvalidInputError):
    code = "unknown_oracle"

    def __init__(self, name: str, field: str, known: Sequence[str]) -> None:
        sentence = f"There is no oracle '{name}'; there are {', '.join(known)}"
        super().__init__(sentence, field=field, allowed=list(known))


class SearchFailedError(UnavailableError):
    """No oracle that was asked could answer. `details.oracles` holds the reason of each."""

    code = "search_failed"


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of asking one oracle. `answer` is None when it was not available."""

    answer: OracleAnswer | RagError | None
    latency_ms: float


@dataclass(frozen=True, slots=True)
class _Ranked:
    """All candidates in order, those of them that are relevant enough, and how both was found out."""

    results: list[FusedResult]
    passing: list[FusedResult]
    compared_by: str | None
    min_relevance: float | None

    def reordered(self, best: Sequence[FusedResult]) -> _Ranked:
        """Return the same with its first passing results in another order."""
        passing = [*best, *self.passing[len(best) :]]
        in_turn = iter(passing)
        passed = {key_of(each) for each in passing}
        results = [next(in_turn) if key_of(each) in passed else each for each in self.results]
        return replace(self, results=results, passing=passing)


class SearchEngine:
    """A search over several oracles, usable by several threads.

    `choice` says which collections a request means, `embed` gives the embeddings of its question, and
    `limit_seconds` bounds a search. Each oracle is asked for `fetch_multiplier` times the limit, and for
    `fetch_min` at least: with k = 60 a document down to rank 61 of two lists is above the first of only one, so a
    low limit must not hide what the oracles agree on. `reranking` puts the best in another order where a request
    asks for it. `fusion` and `min_relevance` are those of requests that name none; with None for the latter it is
    the embedding model's.
    """

    def __init__(
        self,
        oracles: Sequence[Oracle],
        choice: CollectionChoice,
        *,
        rrf_k: int,
        fetch_multiplier: int,
        fetch_min: int,
        limit_seconds: float,
        fusion: str,
        embed: Callable[[str], AskedEmbeddings],
        reranking: Reranking,
        min_relevance: float | None = None,
        weights: Mapping[str, float] = UNWEIGHTED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._oracles = {oracle.name: oracle for oracle in oracles}
        self._choice = choice
        self._rrf_k = rrf_k
        self._fetch_multiplier = fetch_multiplier
        self._fetch_min = fetch_min
        self._limit_seconds = limit_seconds
        self._fusion = fusion
        self._embed = embed
        self._reranking = reranking
        self._min_relevance = min_relevance
        self._words = WordSimilarity()
        self._weights = weights
        self._clock = clock
        # Each has threads of its own: an oracle that hangs keeps nobody from asking the others.
        self._pools = {name: ThreadPoolExecutor(PARALLEL, thread_name_prefix=name) for name in self._oracles}

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
        """Return the best documents by all oracles.

        The receipt names an oracle that failed while others answered. Raises SearchFailedError when none can answer, or
        only in notes while no collection could be asked. When each fails for one reason it is that one:
        TooManyRequestsError, EmbeddingMismatchError, TooSlowError or InvalidInputError. Raises InvalidInputError,
        CollectionNotFoundError for a collection that the request names in full, what `Reranking.connection_of`
        raises for the connection that it names, and BusyError when too many wait for the connections that it asks.
        """
        check_query(request.query)
        if not 1 <= request.limit <= MAX_RESULTS:
            raise InvalidInputError(f"limit must be between 1 and {MAX_RESULTS}", field="limit", code="invalid_field")
        weights = self._weights_of(request)
        reranker = None if request.rerank is None else self._reranking.connection_of(request.rerank, field="rerank")
        chosen = self._collections_of(request)

        def asked() -> list[str]:
            by_meaning = request.min_relevance or any(self._oracles[each].measure == "cosine" for each in weights)
            return [*self._choice.elsewhere(chosen.asked if by_meaning else ()), *([reranker] if reranker else ())]

        with waiting_for(asked):
            return self._answer(request, chosen, weights, reranker)

    def _answer(
        self, request: SearchRequest, chosen: Chosen, weights: Mapping[str, float], reranker: str | None
    ) -> SearchAnswer:
        until = self._clock() + self._limit_seconds
        question = Question(
            request.query,
            chosen.corpus,
            chosen.asked,
            request.where,
            until - self._limit_seconds / 5,
            request.asker,
            self._embed(request.query),
        )
        fetched = min(MAX_FETCHED, max(self._fetch_min, request.limit * self._fetch_multiplier))
        ask = read_limits.awaited(self._ask)
        asked = {
            name: self._pools[name].submit(ask, self._oracles[name], question, fetched, until)
            for name, weight in weights.items()
            if weight > 0
        }
        outcomes = {name: self._outcome(answer, until) for name, answer in asked.items()}
        found = {name: each.answer.results for name, each in outcomes.items() if isinstance(each.answer, OracleAnswer)}
        failed = {name: each.answer for name, each in outcomes.items() if isinstance(each.answer, RagError)}
        not_asked = self._asked_by_none(chosen, outcomes)
        if failed and (not found or len(not_asked) == len(chosen.asked) > 0):
            raise _failure(failed)
        # There is nothing to fuse in the answer of a single oracle: its order stays.
        fusion = (request.fusion or self._fusion) if len(asked) > 1 else RRF
        measures = {name: oracle.measure for name, oracle in self._oracles.items()}
        fused = fuse(found, fusion=fusion, k=self._rrf_k, weights=weights, measures=measures)
        ranked = self._rank(fused, question, request, found, smooth=fusion == SMOOTHED, until=until)
        reranked = None
        if reranker is not None:
            best, reranked = self._reranking.reordered(reranker, request.query, ranked.passing, until - self._clock())
            ranked = ranked.reordered(best)
        results = ranked.passing[: request.limit]
        own = [name for oracle in asked for name in self._oracles[oracle].own_collections]
        receipt = SearchReceipt(
            oracles={name: _receipt(outcome) for name, outcome in outcomes.items()},
            rrf_k=self._rrf_k,
            fetch_multiplier=self._fetch_multiplier,
            fetched=fetched,
            weights=weights,
            collections=chosen.receipt.without(not_asked).with_asked(
                [notes.name for notes in chosen.corpus.existing(own) if notes.count != 0]
            ),
            fusion=fusion,
            compared_by=ranked.compared_by,
            min_relevance=ranked.min_relevance,
            below_min_relevance=len(ranked.results) - len(ranked.passing),
            rerank=reranked,
        )
        log.info("search", oracles={name: each.status for name, each in receipt.oracles.items()}, results=len(results))
        explanations = None
        if request.explain:
            searched = receipt.collections.asked
            explainer = Explainer(
                chosen.corpus, question, searched, receipt, ranked.results, ranked.passing, results, fetched
            )
            explanations = explainer.of(request.explain) if isinstance(request.explain, tuple) else explainer.cut()
        groups = None if request.gather is None else gather_groups(chosen.corpus, results, request.gather)
        return SearchAnswer(results, receipt, groups, explanations)

    def _rank(
        self,
        fused: list[FusedResult],
        question: Question,
        request: SearchRequest,
        found: Mapping[str, Sequence[OracleResult]],
        *,
        smooth: bool,
        until: float,
    ) -> _Ranked:
        """Smooth the scores of the first candidates if asked to, and judge their relevance where it can be told."""
        with deadlines.within(max(0.0, until - self._clock())):
            asked = self._embeddings_of(question, request, fused)
            candidates = Candidates.read(question.corpus, fused, found.values(), asked)
            scores, compared_by = candidates.smoothed(question.corpus, self._words) if smooth else (None, None)
        relevances: list[float | None] | None = None
        if asked:
            by_meaning = [each for name, each in found.items() if self._oracles[name].measure == "cosine"]
            nearest: Sequence[OracleResult | FusedResult] = by_meaning[0] if by_meaning else fused
            relevances = candidates.relevances(asked, WordsFound.of(question.text, nearest))
        judged = [*candidates.judged(scores, relevances), *fused[FIRST:]]
        if not asked:
            return _Ranked(judged, judged, compared_by, None)
        threshold = self._threshold(request, asked)
        passing = [each for each in judged if threshold.passes(each)]
        return _Ranked(judged, passing, compared_by, threshold.least)

    def _embeddings_of(
        self, question: Question, request: SearchRequest, fused: Sequence[FusedResult]
    ) -> dict[str, QueryEmbedding]:
        """Return the embedded question by collection, as far as a model could read it. Where no oracle wanted it, it is
        embedded only for a request that says how relevant hits must be."""
        found, asked = {}, question.embeddings
        assert asked is not None
        names = [*(each.name for each in question.collections), *(each.collection for each in fused[:FIRST])]
        infos = question.corpus.existing(names)
        for info in asked.as_embedded(infos, question.until) if request.min_relevance else infos:
            embedded = asked.made_of(info)
            if request.min_relevance:
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

    def _asked_by_none(self, chosen: Chosen, outcomes: Mapping[str, _Outcome]) -> dict[str, str]:
        """Return the collections that no oracle could ask, each with a reason."""
        answers = [
            outcome.answer
            for name, outcome in outcomes.items()
            if outcome.answer is not None and not self._oracles[name].own_collections
        ]
        if not answers:
            return {each.name: "no oracle that searches it was asked" for each in chosen.asked}
        found = {}
        for collection in chosen.asked:
            reasons = [_reason(answer, collection.name) for answer in answers]
            if all(reasons):
                found[collection.name] = str(reasons[0])
        return found

    def _collections_of(self, request: SearchRequest) -> Chosen:
        try:
            return self._choice.choose(request.collections)
        except CollectionNotFoundError as error:
            index = (request.collections or ()).index(error.details["collection"])
            error.details |= {"field": "collections", "index": index}
            raise

    def _weights_of(self, request: SearchRequest) -> dict[str, float]:
        """Return the weight of each oracle that is to be asked. Raises InvalidInputError when the request names an
        unknown oracle or gives an invalid weight."""
        known = list(self._oracles)
        for field, names in (("oracles", request.oracles or ()), ("weights", request.weights)):
            for name in names:
                if name not in self._oracles:
                    raise UnknownOracleError(name, field, known)
        if request.oracles == ():
            raise InvalidInputError(
                "oracles must name at least one", field="oracles", code="invalid_field", allowed=known
            )
        for name, weight in request.weights.items():
            if not 0 <= weight <= MAX_WEIGHT:
                sentence = f"weights.{name} must be a number from 0 to {MAX_WEIGHT:,.0f}"
                raise InvalidInputError(sentence, field=f"weights.{name}", code="invalid_field")
        weights = {
            name: float(request.weights.get(name, self._weights.get(name, 1.0))) for name in self._chosen(request)
        }
        if not any(weights.values()):
            raise InvalidInputError("weights must not all be 0", field="weights", code="invalid_field")
        return weights

    def _chosen(self, request: SearchRequest) -> list[str]:
        if request.oracles is not None:
            return list(dict.fromkeys(request.oracles))
        named = request.collections
        return [
            name
            for name, oracle in self._oracles.items()
            if named is None or not oracle.own_collections or _names_one_of(named, oracle.own_collections)
        ]

    def _ask(self, oracle: Oracle, question: Question, limit: int, until: float) -> _Outcome:
        began = self._clock()
        answer: OracleAnswer | RagError | None = None
        try:
            # Set in this thread, so that the oracle's requests to other services end when nobody waits for them.
            left_seconds = max(0.0, until - began)
            with (
                deadlines.within(left_seconds),
                read_limits.within(left_seconds),
                spans.span("oracle", oracle=oracle.name),
            ):
                if oracle.is_available(question.corpus):
                    answer = oracle.query(question, limit)
        except RagError as error:
            answer = error
        except Exception:
            log.exception("an oracle failed", oracle=oracle.name)
            answer = UnavailableError("The oracle failed for a reason that is in the log")
        return _Outcome(answer, round((self._clock() - began) * 1e3, 2))

    def _outcome(self, answer: Future[_Outcome], until: float) -> _Outcome:
        try:
            return answer.result(max(0.0, until - self._clock()))
        except NotInTimeError:
            answer.cancel()
            sentence = f"No answer within {self._limit_seconds:g} s"
            return _Outcome(UnavailableError(sentence), round(self._limit_seconds * 1e3, 2))


def _failure(failed: Mapping[str, RagError]) -> RagError:
    """Return the error of a search that no oracle could answer, each for a reason of its own."""
    refusals = [each for each in failed.values() if isinstance(each, TooManyRequestsError)]
    if len(refusals) == len(failed):
        return max(refusals, key=lambda refusal: refusal.retry_after_seconds)
    for kind in (InvalidInputError, TooSlowError, EmbeddingMismatchError):
        if all(isinstance(each, kind) for each in failed.values()):
            return next(iter(failed.values()))
    reasons = {name: each.message for name, each in failed.items()}
    said = "; ".join(f"{name}: {sentence}" for name, sentence in reasons.items())
    error = SearchFailedError(f"No oracle could answer: {said}", oracles=reasons)
    passing = [each.retry_after_seconds for each in failed.values() if each.retry_after_seconds is not None]
    error.retry_after_seconds = max(passing, default=None)
    return error


def _reason(answer: OracleAnswer | RagError, collection: str) -> str | None:
    """Return why the oracle with this answer did not ask the collection, None when it did."""
    return answer.message if isinstance(answer, RagError) else answer.left_out.get(collection)


def _names_one_of(named: Sequence[str], collections: Sequence[str]) -> bool:
    return any(matches_pattern(name, pattern) for name in collections for pattern in named)


def _receipt(outcome: _Outcome) -> OracleReceipt:
    answer, latency_ms = outcome.answer, outcome.latency_ms
    if answer is None:
        return OracleReceipt(UNAVAILABLE, 0, latency_ms)
    if isinstance(answer, RagError):
        return OracleReceipt(FAILED, 0, latency_ms, error=answer.message)
    found = {(result.doc_id, result.collection) for result in answer.results}
    return OracleReceipt(OK, len(found), latency_ms, left_out=answer.left_out, plans=answer.plans)
