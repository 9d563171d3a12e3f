"""Fusion: the best-first lists of several oracles become one.

*rrf* goes by ranks alone: reciprocal rank fusion, as Cormack, Clarke and Büttcher (2009) have it and as the contract
*search* asks for it. *scores* goes by what the oracles measured. *smoothed* is *scores*, after which documents that are
like each other share their scores (`retrieval/search/smoothing.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from schemas.contracts.search import FusedResult, OracleResult, Provenance
from schemas.ways import RRF

DEFAULT_K = 60
SCORED = 100
"""The number of an oracle's documents whose scores are fused; those after them count as not found."""
DocumentKey = tuple[str, str]
"""(id of a document, collection): the same id in two collections is two documents."""
NO_WEIGHTS: Mapping[str, float] = MappingProxyType({})

_Places = dict[str, tuple[int, OracleResult]]
"""Of one document, by oracle: its rank and its best chunk."""
_Scale = tuple[float, float]


def fuse(
    rankings: Mapping[str, Sequence[OracleResult]],
    *,
    fusion: str = RRF,
    k: int = DEFAULT_K,
    weights: Mapping[str, float] = NO_WEIGHTS,
    measures: Mapping[str, str] = MappingProxyType({}),
) -> list[FusedResult]:
    """Return all documents of the rankings, best first; equal ones are sorted by id.

    Ranks count documents from 1: of several chunks of one document only the best has a rank. An oracle without a weight
    has 1. By *rrf* a document gains weight / (k + rank) of each oracle that found it. By scores it gains the weight
    times its score, scaled so that the list's best has 1 and its last 0; oracles that measure the same (`measures`) are
    scaled together. `score` is the share of what a document would have that is best everywhere, `rrf_score` is always
    Σ weight / (k + rank). A document shows the chunk that all oracles together think best of.
    """
    shares = {oracle: weights.get(oracle, 1.0) for oracle in rankings}
    ranked = {oracle: _documents(ranking) for oracle, ranking in rankings.items()}
    found: dict[DocumentKey, _Places] = {}
    for oracle, documents in ranked.items():
        for rank, (key, result) in enumerate(documents.items(), start=1):
            found.setdefault(key, {})[oracle] = (rank, result)
    scales = _scales({oracle: list(documents.values())[:SCORED] for oracle, documents in ranked.items()}, measures)

    def by_rank(oracle: str, rank: int, result: OracleResult) -> float:
        return shares[oracle] / (k + rank)

    def by_score(oracle: str, rank: int, result: OracleResult) -> float:
        return shares[oracle] * _scaled(result.strength, scales[oracle]) if rank <= SCORED else 0.0

    gain = by_rank if fusion == RRF else by_score
    best_possible = math.fsum(share / (k + 1) if fusion == RRF else share for share in shares.values())
    shown = _shown(rankings, lambda *found: (by_score(*found), by_rank(*found)))
    fused = []
    for key, places in found.items():
        gained = math.fsum([gain(oracle, rank, result) for oracle, (rank, result) in places.items()])
        rrf_score = math.fsum([by_rank(oracle, rank, result) for oracle, (rank, result) in places.items()])
        fused.append(_fused(shown[key], places, min(1.0, gained / best_possible) if best_possible else 0.0, rrf_score))
    by_ranks = fusion == RRF

    def order(result: FusedResult) -> tuple[float, float, str, str]:
        # Two scores may differ less than their shares of the best possible can show.
        main = result.rrf_score if by_ranks else result.score
        return -main, -result.rrf_score, result.doc_id, result.collection

    return sorted(fused, key=order)


def key_of(result: OracleResult | FusedResult) -> DocumentKey:
    """Return what tells the result's document from all others."""
    return result.doc_id, result.collection


def _documents(ranking: Sequence[OracleResult]) -> dict[DocumentKey, OracleResult]:
    documents: dict[DocumentKey, OracleResult] = {}
    for result in ranking:
        documents.setdefault(key_of(result), result)
    return documents


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


def _shown(
    rankings: Mapping[str, Sequence[OracleResult]], gain: Callable[[str, int, OracleResult], tuple[float, float]]
) -> dict[DocumentKey, OracleResult]:
    """Return the chunk of each document that gained most over all oracles, by its own scores and then by its ranks.

    What has the rare word of a question is seldom what is nearest to it, but it is near as well; ranks tell too little
    about that, however documents are fused.
    """
    gained: dict[tuple[str, str, str], tuple[float, float]] = {}
    shown: dict[DocumentKey, tuple[tuple[float, float], OracleResult]] = {}
    for oracle, results in rankings.items():
        for rank, each in enumerate(results, start=1):
            chunk = each.doc_id, each.collection, each.chunk_id
            by_score, by_rank = gain(oracle, rank, each)
            before = gained.get(chunk, (0.0, 0.0))
            total = gained[chunk] = before[0] + by_score, before[1] + by_rank
            best = shown.get(key_of(each))
            if best is None or total > best[0]:
                shown[key_of(each)] = total, each
    return {key: result for key, (_, result) in shown.items()}


def _fused(shown: OracleResult, places: _Places, score: float, rrf_score: float) -> FusedResult:
    return FusedResult(
        doc_id=shown.doc_id,
        collection=shown.collection,
        chunk_id=shown.chunk_id,
        content=shown.content,
        score=score,
        rrf_score=rrf_score,
        sources=tuple(places),
        provenance={oracle: Provenance(rank, result.score) for oracle, (rank, result) in places.items()},
        metadata=shown.metadata,
    )
