"""Fusion: the best-first lists of several oracles become one.

*rrf* goes by ranks alone: reciprocal rank fusion, as Cormack, Clarke and Büttcher (2009) have it and as the contract
*search* asks for it. *scores* goes by what the oracles measured. *smoothed* is *scores*, after which documents that are
like each other share their scores (`retrieval/search/smoothing.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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


def key_of(result: OracleResult | FusedResult) -> DocumentKey:
    """Return what tells the result's document from all others."""
    return result.doc_id, result.collection


def passage_of(result: OracleResult | FusedResult) -> PassageKey:
    """Return what tells the result's passage from all others."""
    return result.doc_id, result.collection, result.chunk_id


@dataclass(slots=True)
class _Place:
    """The rank and the best chunk of a document, or of one of its chunks, by one oracle, and what it gains by both."""

    rank: int
    chunk: OracleResult
    by_rank: float
    by_score: float


_Found = dict[str, _Place]
"""What the oracles found of a document, or of one of its chunks, by their names."""


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
        self._most = math.fsum(share / (k + 1) if self._by_ranks else share for share in self._shares.values())
        self._unit = unit
        self._measures = measures

    def results(self) -> list[FusedResult]:
        """Return all documents, best first; equal ones are sorted by id.

        `score` is the share of what a document would have that is best everywhere, `rrf_score` is always
        Σ weight / (k + rank). A document shows the chunk that all oracles together think best of.
        """
        units = self._chunks if self._unit is passage_of else self._found(self._unit)
        fused = [self._fused(self._passages[key][0], found) for key, found in units.items()]
        return in_order(fused, by_ranks=self._by_ranks)

    def others(self, result: FusedResult) -> list[FusedResult]:
        """Return what else was found of a result's document, best first.

        Their ranks are those among chunks. Their scores are parts of the result's: as large as what they gained is of
        what the shown chunk gained.
        """
        best, *others = self._passages[self._unit(result)]
        if not others:
            return []
        gains = _gains(best)
        at = 1 if self._by_ranks or not gains[0] else 0
        passages = [self._fused(other, other) for other in others]
        for passage, other in zip(passages, others, strict=True):
            passage.score = result.score * _gains(other)[at] / gains[at] if gains[at] else 0.0
        return passages

    @cached_property
    def _chunks(self) -> dict[Hashable, _Found]:
        return self._found(passage_of)

    @cached_property
    def _passages(self) -> dict[Hashable, list[_Found]]:
        """The chunks of each document by what they gained over all oracles: by their scores, then by their ranks.

        What has the rare word of a question is seldom what is nearest to it, but it is near as well; ranks tell too
        little about that, however documents are fused.
        """
        passages: dict[Hashable, list[_Found]] = {}
        for found in self._chunks.values():
            passages.setdefault(self._unit(_shown(found)), []).append(found)
        for of_one in passages.values():
            if len(of_one) > 1:
                of_one.sort(key=_gains, reverse=True)
        return passages

    @cached_property
    def _scales(self) -> dict[str, tuple[float, float]]:
        """By oracle the least and the greatest score of those that measure the same."""
        by_measure: dict[str, list[float]] = {}
        of_oracle = {oracle: by_measure.setdefault(self._measures.get(oracle, oracle), []) for oracle in self._rankings}
        for oracle, results in self._rankings.items():
            of_oracle[oracle].extend(each.strength for each in results[:SCORED])
        return {oracle: (min(told, default=0.0), max(told, default=0.0)) for oracle, told in of_oracle.items()}

    def _found(self, unit: Callable[[OracleResult | FusedResult], Hashable]) -> dict[Hashable, _Found]:
        everything: dict[Hashable, _Found] = {}
        for oracle, results in self._rankings.items():
            share, (least, most), rank = self._shares[oracle], self._scales[oracle], 0
            for each in results:
                key = unit(each)
                found = everything.get(key)
                if found is None:
                    found = everything[key] = {}
                elif oracle in found:
                    continue
                rank += 1
                # A document's best chunk may come after the first hundred, and be less than the least.
                scaled = max(0.0, (each.strength - least) / (most - least)) if most > least else 1.0
                by_score = share * scaled if rank <= SCORED else 0.0
                found[oracle] = _Place(rank, each, share / (self._k + rank), by_score)
        return everything

    def _fused(self, shown: _Found, found: _Found) -> FusedResult:
        """Return a document as the chunk that it shows, with what was found of both."""
        chunk, (by_score, rrf_score) = _shown(shown), _gains(found)
        gained = rrf_score if self._by_ranks else by_score
        return FusedResult(
            chunk.doc_id,
            chunk.collection,
            chunk.chunk_id,
            chunk.content,
            min(1.0, gained / self._most) if self._most else 0.0,
            rrf_score,
            tuple(found),
            {oracle: Provenance(place.rank, place.chunk.score) for oracle, place in found.items()},
            chunk.metadata,
            cosine=next((place.chunk.cosine for place in shown.values() if place.chunk.cosine is not None), None),
        )


def _shown(found: _Found) -> OracleResult:
    return next(iter(found.values())).chunk


def _gains(found: _Found) -> tuple[float, float]:
    """Return what was gained by scores, and by ranks."""
    places = list(found.values())
    if len(places) == 1:
        return places[0].by_score, places[0].by_rank
    return math.fsum([place.by_score for place in places]), math.fsum([place.by_rank for place in places])


def in_order(results: Iterable[FusedResult], *, by_ranks: bool) -> list[FusedResult]:
    """Return results best first: by their `rrf_score`, or by their `score` and then by that. Equal ones are sorted by
    id."""

    def order(result: FusedResult) -> tuple[float, float, str, str, str]:
        # Two scores may differ less than their shares of the best possible can show.
        main = result.rrf_score if by_ranks else result.score
        return -main, -result.rrf_score, result.doc_id, result.collection, result.chunk_id

    return sorted(results, key=order)
