"""Fusion: the best-first lists of several oracles become one.

*rrf* goes by ranks alone: reciprocal rank fusion, as Cormack, Clarke and Büttcher (2009) have it and as the contract
*search* asks for it. *scores* goes by what the oracles measured. *smoothed* is *scores*, after which documents that are
like each other share their scores (`retrieval/search/smoothing.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from schemas.contracts.search import FusedResult, OracleResult, Provenance
from schemas.ways import RRF

DEFAULT_K = 60
SCORED = 100
"""The number of an oracle's documents whose scores are fused; those after them count as not found."""
DocumentKey = tuple[str, str]
"""(id of a document, collection): the same id in two collections is two documents."""
PassageKey = tuple[str, str, str]
"""(id of a document, collection, id of a chunk)."""
NO_WEIGHTS: Mapping[str, float] = MappingProxyType({})

_Places = dict[str, tuple[int, OracleResult]]
"""Of one document, by oracle: its rank and its best chunk."""
_Scale = tuple[float, float]
_Gain = tuple[float, float]
"""What something gains by its scores, and by its ranks."""


def key_of(result: OracleResult | FusedResult) -> DocumentKey:
    """Return what tells the result's document from all others."""
    return result.doc_id, result.collection


def passage_of(result: OracleResult | FusedResult) -> PassageKey:
    """Return what tells the result's passage from all others."""
    return result.doc_id, result.collection, result.chunk_id


class Fusion:
    """The fusion of best-first lists: the documents of all of them, and what else was found of each.

    Ranks count documents from 1: of several chunks of one document only the best has a rank. An oracle without a weight
    has 1. By *rrf* a document gains weight / (k + rank) of each oracle that found it. By scores it gains the weight
    times its score, scaled so that the list's best has 1 and its last 0; oracles that measure the same (`measures`) are
    scaled together. With `passage_of` as `unit`, each passage is ranked and fused as a document of its own.
    """

    def __init__(
        self,
        rankings: Mapping[str, Sequence[OracleResult]],
        *,
        fusion: str = RRF,
        k: int = DEFAULT_K,
        weights: Mapping[str, float] = NO_WEIGHTS,
        measures: Mapping[str, str] = MappingProxyType({}),
        unit: Callable[[OracleResult | FusedResult], Hashable] = key_of,
    ) -> None:
        self._rankings = rankings
        self._by_ranks = fusion == RRF
        self._k = k
        self._shares = {oracle: weights.get(oracle, 1.0) for oracle in rankings}
        self._unit = unit
        self._units = {oracle: _firsts(found, unit) for oracle, found in rankings.items()}
        self._scales = _scales({name: list(found)[:SCORED] for name, found in rankings.items()}, measures)

    def results(self) -> list[FusedResult]:
        """Return all documents, best first; equal ones are sorted by id.

        `score` is the share of what a document would have that is best everywhere, `rrf_score` is always
        Σ weight / (k + rank). A document shows the chunk that all oracles together think best of.
        """
        found: dict[Hashable, _Places] = {}
        for oracle, units in self._units.items():
            for rank, (key, result) in enumerate(units.items(), start=1):
                found.setdefault(key, {})[oracle] = (rank, result)
        fused = [self._fused(self._passages[key][0][1], places) for key, places in found.items()]
        return in_order(fused, by_ranks=self._by_ranks)

    def others(self, result: FusedResult) -> list[FusedResult]:
        """Return what else was found of a result's document, best first.

        Their ranks are those among chunks. Their scores are parts of the result's: as large as what they gained is of
        what the shown chunk gained.
        """
        (best, _), *others = self._passages[self._unit(result)]
        found = []
        for gain, chunk in others:
            passage = self._fused(chunk, self._chunk_places[passage_of(chunk)])
            mine, most = (gain[1], best[1]) if self._by_ranks or not best[0] else (gain[0], best[0])
            found.append(passage.judged(result.score * mine / most if most else 0.0, None, passage.cosine))
        return found

    @cached_property
    def _chunk_places(self) -> dict[Hashable, _Places]:
        places: dict[Hashable, _Places] = {}
        for oracle, found in self._rankings.items():
            for rank, each in enumerate(found, start=1):
                places.setdefault(passage_of(each), {})[oracle] = (rank, each)
        return places

    @cached_property
    def _passages(self) -> dict[Hashable, list[tuple[_Gain, OracleResult]]]:
        """The chunks of each document by what they gained over all oracles: by their scores, then by their ranks.

        What has the rare word of a question is seldom what is nearest to it, but it is near as well; ranks tell too
        little about that, however documents are fused.
        """
        passages: dict[Hashable, list[tuple[_Gain, OracleResult]]] = {}
        for places in self._chunk_places.values():
            by_score = math.fsum(self._by_score(oracle, rank, each) for oracle, (rank, each) in places.items())
            by_rank = math.fsum(self._by_rank(oracle, rank) for oracle, (rank, _) in places.items())
            _, chunk = next(iter(places.values()))
            passages.setdefault(self._unit(chunk), []).append(((by_score, by_rank), chunk))
        for found in passages.values():
            found.sort(key=lambda gained: gained[0], reverse=True)
        return passages

    def _by_rank(self, oracle: str, rank: int) -> float:
        return self._shares[oracle] / (self._k + rank)

    def _by_score(self, oracle: str, rank: int, result: OracleResult) -> float:
        return self._shares[oracle] * _scaled(result.strength, self._scales[oracle]) if rank <= SCORED else 0.0

    def _fused(self, shown: OracleResult, places: _Places) -> FusedResult:
        of_it = self._chunk_places[passage_of(shown)]
        rrf_score = math.fsum(self._by_rank(oracle, rank) for oracle, (rank, _) in places.items())
        if self._by_ranks:
            gained, most = rrf_score, math.fsum(share / (self._k + 1) for share in self._shares.values())
        else:
            gained = math.fsum(self._by_score(oracle, rank, each) for oracle, (rank, each) in places.items())
            most = math.fsum(self._shares.values())
        return FusedResult(
            doc_id=shown.doc_id,
            collection=shown.collection,
            chunk_id=shown.chunk_id,
            content=shown.content,
            score=min(1.0, gained / most) if most else 0.0,
            rrf_score=rrf_score,
            sources=tuple(places),
            provenance={oracle: Provenance(rank, result.score) for oracle, (rank, result) in places.items()},
            metadata=shown.metadata,
            cosine=next((each.cosine for _, each in of_it.values() if each.cosine is not None), None),
        )


def in_order(results: Iterable[FusedResult], *, by_ranks: bool) -> list[FusedResult]:
    """Return results best first: by their `rrf_score`, or by their `score` and then by that. Equal ones are sorted by
    id."""

    def order(result: FusedResult) -> tuple[float, float, str, str, str]:
        # Two scores may differ less than their shares of the best possible can show.
        main = result.rrf_score if by_ranks else result.score
        return -main, -result.rrf_score, result.doc_id, result.collection, result.chunk_id

    return sorted(results, key=order)


def _firsts(ranking: Sequence[OracleResult], unit: Callable[[OracleResult], Hashable]) -> dict[Hashable, OracleResult]:
    found: dict[Hashable, OracleResult] = {}
    for result in ranking:
        found.setdefault(unit(result), result)
    return found


def _scales(rankings: Mapping[str, Sequence[OracleResult]], measures: Mapping[str, str]) -> dict[str, _Scale]:
    """Return by oracle the least and the greatest score of those that measure the same."""
    by_measure: dict[str, list[float]] = {}
    for oracle, results in rankings.items():
        by_measure.setdefault(measures.get(oracle, oracle), []).extend(each.strength for each in results)
    found = {oracle: by_measure[measures.get(oracle, oracle)] for oracle in rankings}
    return {oracle: (min(strengths, default=0.0), max(strengths, default=0.0)) for oracle, strengths in found.items()}


def _scaled(strength: float, scale: _Scale) -> float:
    """Return a score scaled to [0, 1]: 1 where all are equal, 0 for one that is less than the least."""
    least, most = scale
    return max(0.0, (strength - least) / (most - least)) if most > least else 1.0
