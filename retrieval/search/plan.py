"""How a search is carried out, and what it has found so far: what the steps of the engine hand on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from retrieval.search.choosing import Chosen
from retrieval.search.fusion import passage_of
from retrieval.search.oracles.base import Question
from schemas.contracts.search import (
    FAILED,
    OK,
    UNAVAILABLE,
    FusedResult,
    OracleAnswer,
    OracleReceipt,
    OracleResult,
    RerankReceipt,
    SearchRequest,
)
from schemas.errors import RagError


@dataclass(frozen=True, slots=True)
class Plan:
    """How a request is answered: which oracles are asked for `fetched` passages each, with what weights, of which
    collections, until when by the engine's clock, and which connection reranks."""

    request: SearchRequest
    question: Question
    chosen: Chosen
    weights: Mapping[str, float]
    reranker: str | None
    fetched: int
    limit_seconds: float
    until: float

    @property
    def asked(self) -> list[str]:
        """The names of the oracles that are asked."""
        return [name for name, weight in self.weights.items() if weight > 0]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of asking one oracle. `answer` is None when it was not available."""

    answer: OracleAnswer | RagError | None
    latency_ms: float

    @property
    def receipt(self) -> OracleReceipt:
        answer, latency_ms = self.answer, self.latency_ms
        if answer is None:
            return OracleReceipt(UNAVAILABLE, 0, latency_ms)
        if isinstance(answer, RagError):
            return OracleReceipt(FAILED, 0, latency_ms, error=answer.message)
        documents = {(result.doc_id, result.collection) for result in answer.results}
        return OracleReceipt(OK, len(documents), latency_ms, left_out=answer.left_out, plans=answer.plans)


@dataclass(slots=True)
class Found:
    """What has been found for a question so far: what each oracle said, which collections none of them could ask, all
    candidates in order, best first, those of them that are relevant enough, how that was found out, and how many hits
    of a document there may be."""

    outcomes: Mapping[str, Outcome]
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
        return {
            name: each.answer.results for name, each in self.outcomes.items() if isinstance(each.answer, OracleAnswer)
        }

    @property
    def failed(self) -> dict[str, RagError]:
        return {name: each.answer for name, each in self.outcomes.items() if isinstance(each.answer, RagError)}

    def reorder(self, best: Sequence[FusedResult]) -> None:
        """Put the first passing candidates in another order, `best`."""
        self.passing = [*best, *self.passing[len(best) :]]
        in_turn = iter(self.passing)
        passed = {passage_of(each) for each in self.passing}
        self.candidates = [next(in_turn) if passage_of(each) in passed else each for each in self.candidates]
