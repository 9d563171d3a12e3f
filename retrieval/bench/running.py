"""Run all queries of a set with one oracle at a time and with all together, and measure the rankings by what people
judged relevant: by the definitions of trec_eval, with linear gains."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from retrieval.bench.query_set import Query
from retrieval.search.engine import SearchEngine
from schemas.contracts.search import FAILED, Explanation, SearchRequest
from schemas.ways import FUSIONS

CUT, SHORT_CUT, TOP = 10, 5, 3
FUSED, ASK = "fused", "ask"
Ask = Callable[[Query, int, str], Sequence[str]]
"""Finds the documents of a question, at most so many in that collection, that an answer of the chat model is given."""


@dataclass(frozen=True, slots=True)
class Quality:
    """The measures of one ranking, or their means over several; each is in [0, 1].

    success_at_3: whether something relevant is among the first three.
    """

    success_at_3: float
    mrr: float
    ndcg_at_10: float
    recall_at_5: float
    recall_at_10: float


MEASURES = ("success_at_3", "mrr", "ndcg_at_10", "recall_at_5", "recall_at_10")


@dataclass(frozen=True, slots=True)
class Asked:
    """The outcome of one query. `ranking`: ids of documents, best first; `has_failed`: an oracle could not answer."""

    query: Query
    ranking: tuple[str, ...]
    quality: Quality
    latency_ms: float
    has_failed: bool


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
        return sum(each.has_failed for each in self.asked)

    def latencies_ms(self, *percentiles: int) -> dict[str, float]:
        """Return these percentiles as `p50`, and the `mean`."""
        taken = [each.latency_ms for each in self.asked]
        found = {f"p{each}": float(np.percentile(taken, each)) for each in percentiles}
        return {**found, "mean": float(np.mean(taken))}


@dataclass(frozen=True, slots=True)
class Missed:
    """The relevant documents that a query did not get among its results, most relevant first."""

    asked: Asked
    explanations: tuple[Explanation, ...]


@dataclass(frozen=True, slots=True)
class Bench:
    """Measures queries about a collection; calls `on_query` with the run's name after each query.

    `fusion` and `weights` apply to the fused run. With `ask` it measures that, too.
    """

    engine: SearchEngine
    queries: Sequence[Query]
    collection: str
    limit: int
    fusion: str
    weights: Mapping[str, float] = field(default_factory=dict)
    on_query: Callable[[str], None] = lambda name: None
    ask: Ask | None = None

    def runs(self, oracles: Sequence[str]) -> list[Run]:
        """Return one run for each oracle and, when there are several, the run `fused` and one for each other fusion;
        before it, the run `ask` where that is measured.

        A first query, which does not count, opens whatever has to be opened. Raises what the search raises when a query
        cannot be answered at all.
        """
        usual = self.fusion
        named: dict[str, tuple[tuple[str, ...], str]] = {name: ((name,), usual) for name in oracles}
        if len(oracles) > 1:
            others = {f"{FUSED}-{fusion}": (tuple(oracles), fusion) for fusion in FUSIONS if fusion != usual}
            named |= others | {FUSED: (tuple(oracles), usual)}
        for asked, fusion in named.values():
            self.engine.search(self._request(self.queries[0], asked, fusion))
        runs = [
            Run(name, asked, fusion, tuple(self._asked(name, query, asked, fusion) for query in self.queries))
            for name, (asked, fusion) in named.items()
        ]
        if self.ask is not None:
            answered = tuple(self._asked(ASK, query, tuple(oracles), usual) for query in self.queries)
            runs.insert(len(runs) - 1, Run(ASK, tuple(oracles), usual, answered))
        return runs

    def warm_up(self, oracles: Sequence[str]) -> None:
        """Ask each query once, unmeasured."""
        for query in self.queries:
            self.engine.search(self._request(query, tuple(oracles), self.fusion))
            self.on_query(FUSED)

    def missed(self, run: Run) -> list[Missed]:
        """Return what each query of a run missed, with the engine's own explanation of where it was."""
        found = []
        for asked in run.asked:
            grades = asked.query.judgements
            relevant = sorted((each for each, grade in grades.items() if grade > 0), key=lambda each: -grades[each])
            if wanted := tuple(each for each in relevant if each not in asked.ranking):
                request = self._request(asked.query, run.oracles, run.fusion, explain=wanted)
                found.append(Missed(asked, tuple(self.engine.search(request).explanations or ())))
        return found

    def _asked(self, name: str, query: Query, oracles: tuple[str, ...], fusion: str) -> Asked:
        began = time.perf_counter()
        has_failed = False
        if name == ASK and self.ask is not None:
            found = self.ask(query, self.limit, self.collection)
        else:
            answer = self.engine.search(self._request(query, oracles, fusion))
            found = [result.doc_id for result in answer.results]
            has_failed = any(each.status == FAILED or each.left_out for each in answer.receipt.oracles.values())
        latency_ms = (time.perf_counter() - began) * 1e3
        self.on_query(name)
        ranking = tuple(dict.fromkeys(found))
        return Asked(query, ranking, quality(ranking, query.judgements), latency_ms, has_failed)

    def _request(
        self, query: Query, oracles: tuple[str, ...], fusion: str, explain: tuple[str, ...] = ()
    ) -> SearchRequest:
        return SearchRequest(
            query.text,
            limit=self.limit,
            oracles=oracles,
            weights=self.weights if len(oracles) > 1 else {},
            collections=(self.collection,),
            explain=explain,
            fusion=fusion,
            min_relevance=0.0,  # the ranking is measured, not where it is cut
            max_per_document=1,  # documents are judged
            joins=False,
        )


def quality(ranking: Sequence[str], judgements: Mapping[str, int]) -> Quality:
    """Measure a ranking: ids of documents, best first, each once. At least one document must be relevant."""
    relevant = {document_id for document_id, score in judgements.items() if score > 0}
    first = next((rank for rank, each in enumerate(ranking[:CUT], start=1) if each in relevant), None)
    best = sorted(judgements.values(), reverse=True)
    return Quality(
        success_at_3=float(first is not None and first <= TOP),
        mrr=0.0 if first is None else 1.0 / first,
        ndcg_at_10=_gain([judgements.get(each, 0) for each in ranking]) / _gain(best),
        recall_at_5=len(relevant.intersection(ranking[:SHORT_CUT])) / len(relevant),
        recall_at_10=len(relevant.intersection(ranking[:CUT])) / len(relevant),
    )


def mean(qualities: Sequence[Quality]) -> Quality:
    """Return the mean of each measure over at least one ranking."""
    return Quality(*(math.fsum(getattr(each, name) for each in qualities) / len(qualities) for name in MEASURES))


def _gain(scores: Sequence[int]) -> float:
    return math.fsum(max(0, score) / math.log2(place + 2) for place, score in enumerate(scores[:CUT]))
