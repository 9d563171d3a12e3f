"""How a search is carried out, and what it has found so far: what the steps of the engine hand on."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from retrieval.asking import Outcome
from retrieval.search.choosing import Chosen
from retrieval.search.fusion import passage_of
from retrieval.search.oracles.base import Question
from schemas.contracts.search import FusedResult, OracleAnswer, OracleResult, RerankReceipt, SearchRequest
from schemas.errors import RagError

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
