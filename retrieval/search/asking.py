"""How a search is carried out and what it has found so far; and its oracles, which are asked all at the same time, each
in threads of its own."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from registry.embedding.queries import EmbeddingMismatchError
from retrieval.asking import Outcome, ask_within
from retrieval.search.corpus import Chosen
from retrieval.search.fusion import key_of, passage_of
from retrieval.search.oracles.base import Oracle, Question
from schemas.contracts.search import (
    FAILED,
    MAX_WEIGHT,
    OK,
    UNAVAILABLE,
    FusedResult,
    OracleAnswer,
    OracleReceipt,
    OracleResult,
    RerankReceipt,
    SearchRequest,
)
from schemas.errors import InvalidInputError, RagError, TooManyRequestsError, TooSlowError, UnavailableError
from schemas.names import matches_pattern
from schemas.observing import spans

OracleOutcome = Outcome[OracleAnswer | None]
"""The outcome of asking one oracle, without a value when it was not available."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a request is answered: which oracles are asked for `fetched` passages each, with what weights, of which
    collections, how long and, once that has begun, `until` when by the monotonic clock, and which connection reranks.
    """

    request: SearchRequest
    question: Question
    chosen: Chosen
    weights: Mapping[str, float]
    reranker: str | None
    fetched: int
    limit_seconds: float
    until: float = math.inf

    @property
    def is_cacheable(self) -> bool:
        """Whether the answer may be cached: what is said beside its passages, and what was joined, would be lost."""
        request = self.request
        return request.cached_for is not None and not (request.joins or request.explain or request.gather)

    def begun(self) -> Plan:
        """Return the plan with its time running from now. The last fifth of it is for ranking."""
        until = time.monotonic() + self.limit_seconds
        return replace(self, until=until, question=replace(self.question, until=until - self.limit_seconds / 5))

    @property
    def asked(self) -> list[str]:
        """The names of the oracles that are asked."""
        return [name for name, weight in self.weights.items() if weight > 0]


@dataclass(slots=True)
class Found:
    """What has been found for a question so far: what each oracle said, which collections none of them could ask, all
    candidates in order, best first, those of them that are relevant enough, how that was found out, and how many hits
    of a document there may be."""

    outcomes: Mapping[str, OracleOutcome]
    not_asked: Mapping[str, str]
    fusion: str
    candidates: list[FusedResult] = field(default_factory=list)
    passing: list[FusedResult] = field(default_factory=list)
    compared_by: str | None = None
    min_relevance: float | None = None
    reranked: RerankReceipt | None = None
    max_per_document: int | None = None

    @property
    def rankings(self) -> dict[str, Sequence[OracleResult]]:
        """The results of the oracles that answered."""
        return {name: each.value.results for name, each in self.outcomes.items() if each.value is not None}

    @property
    def failed(self) -> dict[str, RagError]:
        return {name: each.error for name, each in self.outcomes.items() if each.error is not None}

    def reorder(self, best: Sequence[FusedResult]) -> None:
        """Put the first passing candidates in another order, `best`."""
        self.passing = [*best, *self.passing[len(best) :]]
        in_turn = iter(self.passing)
        passed = {passage_of(each) for each in self.passing}
        self.candidates = [next(in_turn) if passage_of(each) in passed else each for each in self.candidates]


class UnknownOracleError(InvalidInputError):
    code = "unknown_oracle"

    def __init__(self, name: str, field: str, known: Sequence[str]) -> None:
        sentence = f"There is no oracle '{name}'; there are {', '.join(known)}"
        super().__init__(sentence, field=field, allowed=list(known))


class SearchFailedError(UnavailableError):
    """No oracle that was asked could answer. `details.oracles` holds the reason of each, `failures` the errors."""

    code = "search_failed"
    failures: Mapping[str, RagError]


Oracles = Mapping[str, Oracle]
"""The oracles of a service by their names."""


def weights_of(request: SearchRequest, oracles: Oracles) -> dict[str, float]:
    """Return the weight of each oracle that is to be asked. Raises InvalidInputError when the request names an unknown
    oracle or gives an invalid weight."""
    for said_in, names in (("oracles", request.oracles or ()), ("weights", request.weights)):
        for name in names:
            if name not in oracles:
                raise UnknownOracleError(name, said_in, list(oracles))
    if request.oracles == ():
        raise InvalidInputError(
            "oracles must name at least one", field="oracles", code="invalid_field", allowed=list(oracles)
        )
    for name, weight in request.weights.items():
        if not 0 <= weight <= MAX_WEIGHT:
            sentence = f"weights.{name} must be a number from 0 to {MAX_WEIGHT:,.0f}"
            raise InvalidInputError(sentence, field=f"weights.{name}", code="invalid_field")
    chosen = _by_collections(request.collections, oracles) if request.oracles is None else request.oracles
    weights = {name: float(request.weights.get(name, 1.0)) for name in chosen}
    if not any(weights.values()):
        raise InvalidInputError("weights must not all be 0", field="weights", code="invalid_field")
    return weights


def ask(plan: Plan, oracles: Oracles, pools: Mapping[str, ThreadPoolExecutor]) -> dict[str, OracleOutcome]:
    """Return the outcome of asking each oracle of a plan, in threads of its own; those that take longer than it allows
    have failed."""
    seconds = plan.until - time.monotonic()
    asked = {name: ask_within(seconds, pools[name].submit, partial(_ask, oracles[name], plan)) for name in plan.asked}
    return {name: outcome() for name, outcome in asked.items()}


def asked_by_none(chosen: Chosen, outcomes: Mapping[str, OracleOutcome], oracles: Oracles) -> dict[str, str]:
    """Return the collections that no oracle could ask, each with a reason."""
    answers = [
        outcome
        for name, outcome in outcomes.items()
        if (outcome.value or outcome.error) and not oracles[name].own_collections
    ]
    if not answers:
        return {each.name: "no oracle that searches it was asked" for each in chosen.asked}
    found = {}
    for collection in chosen.asked:
        reasons = [_reason(outcome, collection.name) for outcome in answers]
        if all(reasons):
            found[collection.name] = str(reasons[0])
    return found


def receipt_of(outcome: OracleOutcome) -> OracleReceipt:
    """Return the record of how an oracle was asked."""
    if outcome.error is not None:
        return OracleReceipt(FAILED, 0, outcome.milliseconds, error=outcome.error.message)
    if outcome.value is None:
        return OracleReceipt(UNAVAILABLE, 0, outcome.milliseconds)
    answer, documents = outcome.value, {key_of(each) for each in outcome.value.results}
    return OracleReceipt(OK, len(documents), outcome.milliseconds, left_out=answer.left_out, plans=answer.plans)


def failure_of(failed: Mapping[str, RagError]) -> RagError:
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
    error.failures = failed
    passing = [each.retry_after_seconds for each in failed.values() if each.retry_after_seconds is not None]
    error.retry_after_seconds = max(passing, default=None)
    return error


def _ask(oracle: Oracle, plan: Plan) -> OracleAnswer | None:
    with spans.span("oracle", oracle=oracle.name):
        return oracle.query(plan.question, plan.fetched) if oracle.is_available(plan.question.corpus) else None


def _reason(outcome: OracleOutcome, collection: str) -> str | None:
    """Return why the oracle with this outcome did not ask the collection, None when it did."""
    if outcome.error is not None:
        return outcome.error.message
    return None if outcome.value is None else outcome.value.left_out.get(collection)


def _by_collections(named: Sequence[str] | None, oracles: Oracles) -> list[str]:
    """Return the oracles of a request that names these collections and no oracles."""

    def is_meant(oracle: Oracle) -> bool:
        own = oracle.own_collections
        return named is None or not own or any(matches_pattern(name, each) for name in own for each in named)

    return [name for name, oracle in oracles.items() if is_meant(oracle)]
