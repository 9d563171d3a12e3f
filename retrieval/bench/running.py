"""Run all queries of a set with one oracle at a time and with all together, and measure the answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from retrieval.bench.quality import Quality, mean, quality
from retrieval.bench.query_set import Query
from retrieval.search.engine import SearchEngine
from schemas.contracts.search import FAILED, Explanation, SearchRequest
from schemas.ways import FUSIONS

FUSED, ASK = "fused", "ask"
Ask = Callable[[Query, int, str], Sequence[str]]
"""Finds the documents of a question, at most so many in that collection, that an answer of the chat model is given."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts of a search that are the same for all queries; `weights` and `fusion` apply to the fused run."""

    collection: str
    limit: int
    fusion: str
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """The outcome of one query. `ranking`: ids of documents, best first; `failed`: oracles that could not answer."""

    query: Query
    ranking: tuple[str, ...]
    quality: Quality
    latency_ms: float
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """All queries asked of one oracle, or of all of them fused; `oracles` are in the order they are listed."""

    name: str
    oracles: tuple[str, ...]
    fusion: str
    asked: tuple[Asked, ...]

    @property
    def quality(self) -> Quality:
        return mean([each.quality for each in self.asked])

    @property
    def failures(self) -> int:
        """The number of queries that an oracle could not answer."""
        return sum(bool(each.failed) for each in self.asked)

    def latency_ms(self, percentile: float) -> float:
        return float(np.percentile([each.latency_ms for each in self.asked], percentile))

    @property
    def mean_latency_ms(self) -> float:
        return float(np.mean([each.latency_ms for each in self.asked]))


@dataclass(frozen=True, slots=True)
class Missed:
    """The relevant documents that a query did not get among its results, most relevant first."""

    asked: Asked
    explanations: tuple[Explanation, ...]


class Bench:
    """Measures queries; calls `on_query` with the run's name after each query. With `ask` it measures that, too."""

    def __init__(
        self,
        engine: SearchEngine,
        queries: Sequence[Query],
        plan: Plan,
        *,
        on_query: Callable[[str], None] = lambda name: None,
        ask: Ask | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._engine = engine
        self._queries = queries
        self._plan = plan
        self._on_query = on_query
        self._ask = ask
        self._clock = clock

    def runs(self, oracles: Sequence[str]) -> list[Run]:
        """Return one run for each oracle and, when there are several, the run `fused` and one for each other fusion;
        before it, the run `ask` where that is measured.

        A first query, which does not count, opens whatever has to be opened. Raises what the search raises when a query
        cannot be answered at all.
        """
        usual = self._plan.fusion
        named: dict[str, tuple[tuple[str, ...], str]] = {name: ((name,), usual) for name in oracles}
        if len(oracles) > 1:
            others = {f"{FUSED}-{fusion}": (tuple(oracles), fusion) for fusion in FUSIONS if fusion != usual}
            named |= others | {FUSED: (tuple(oracles), usual)}
        for asked, fusion in named.values():
            self._engine.search(self._request(self._queries[0], asked, fusion))
        runs = [
            Run(name, asked, fusion, tuple(self._asked(name, query, asked, fusion) for query in self._queries))
            for name, (asked, fusion) in named.items()
        ]
        if self._ask is not None:
            answered = tuple(self._asked_of_chat(self._ask, query) for query in self._queries)
            runs.insert(len(runs) - 1, Run(ASK, tuple(oracles), usual, answered))
        return runs

    def _asked_of_chat(self, ask: Ask, query: Query) -> Asked:
        began = self._clock()
        ranking = tuple(dict.fromkeys(ask(query, self._plan.limit, self._plan.collection)))
        latency_ms = (self._clock() - began) * 1e3
        self._on_query(ASK)
        return Asked(query, ranking, quality(ranking, query.judgements), latency_ms, ())

    def warm_up(self, oracles: Sequence[str]) -> None:
        """Ask each query once, unmeasured."""
        for query in self._queries:
            self._engine.search(self._request(query, tuple(oracles), self._plan.fusion))
            self._on_query(FUSED)

    def missed(self, run: Run) -> list[Missed]:
        """Return what each query of a run missed, with the engine's own explanation of where it was."""
        return [
            Missed(asked, self._explained(asked, run, wanted)) for asked in run.asked if (wanted := _missing(asked))
        ]

    def _asked(self, name: str, query: Query, oracles: tuple[str, ...], fusion: str) -> Asked:
        began = self._clock()
        answer = self._engine.search(self._request(query, oracles, fusion))
        latency_ms = (self._clock() - began) * 1e3
        self._on_query(name)
        ranking = tuple(dict.fromkeys(result.doc_id for result in answer.results))
        failed = tuple(name for name, each in answer.receipt.oracles.items() if each.status == FAILED or each.left_out)
        return Asked(query, ranking, quality(ranking, query.judgements), latency_ms, failed)

    def _explained(self, asked: Asked, run: Run, wanted: tuple[str, ...]) -> tuple[Explanation, ...]:
        answer = self._engine.search(self._request(asked.query, run.oracles, run.fusion, explain=wanted))
        return tuple(answer.explanations or ())

    def _request(
        self, query: Query, oracles: tuple[str, ...], fusion: str, explain: tuple[str, ...] = ()
    ) -> SearchRequest:
        return SearchRequest(
            query.text,
            limit=self._plan.limit,
            oracles=oracles,
            weights=self._plan.weights if len(oracles) > 1 else {},
            collections=(self._plan.collection,),
            explain=explain,
            fusion=fusion,
            min_relevance=0.0,  # the ranking is measured, not where it is cut
            max_per_document=1,  # documents are judged
            joins=False,
        )


def _missing(asked: Asked) -> tuple[str, ...]:
    judgements = asked.query.judgements
    relevant = sorted((each for each, score in judgements.items() if score > 0), key=lambda each: -judgements[each])
    return tuple(each for each in relevant if each not in asked.ranking)
