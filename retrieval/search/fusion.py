"""Fusion: the best-first lists of several oracles become one.

*rrf* goes by ranks alone: reciprocal rank fusion, as Cormack, Clarke and Büttcher (2009) have it and as the contract
*search* asks for it. *scores* goes by what the oracles measured. *smoothed* is *scores*, after which documents that are
like each other share their scores (`retrieval/search/smoothing.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from schemas.contracts.search import FusedResult, OracleResult, Provenance
from schemas.fusions import RRF

DEFAULT_K = 60
SCORED = 100
"""The number of an oracle's documents whose scores are fused; those after them count as not found."""
DocumentKey = tuple[str, str]
"""(id of a document, collection): the same id in two collections is two documents."""
NO_WEIGHTS: Mapping[str, float] = MappingProxyType({})

_Places = dict[str, tuple[int, OracleResult]]
"""Of one document, by oracle: its rank and its best chunk."""


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
    Σ weight / (k + rank). A document shows the chunk that gained most for it.
    """
    shares = {oracle: weights.get(oracle, 1.0) for oracle in rankings}
    ranked = {oracle: _documents(ranking) for oracle, ranking in rankings.items()}
    found: dict[DocumentKey, _Places] = {}
    for oracle, documents in ranked.items():
        for rank, (key, result) in enumerate(documents.items(), start=1):
            found.setdefault(key, {})[oracle] = (rank, result)
    if fusion == RRF:
        best_possible = math.fsum(share / (k + 1) for share in shares.values())
        gains = {
            key: {oracle: shares[oracle] / (k + rank) for oracle, (rank, _) in places.items()}
            for key, places in found.items()
        }
    else:
        best_possible = math.fsum(shares.values())
        scaled = _scaled({oracle: list(documents.values())[:SCORED] for oracle, documents in ranked.items()}, measures)
        gains = {
            key: {oracle: shares[oracle] * scaled.get((oracle, key), 0.0) for oracle in places}
            for key, places in found.items()
        }
    fused = [_fused(found[key], gains[key], shares, k, best_possible) for key in found]
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


def _scaled(
    rankings: Mapping[str, Sequence[OracleResult]], measures: Mapping[str, str]
) -> dict[tuple[str, DocumentKey], float]:
    """Return the scores by oracle and document, scaled to [0, 1]. Where all are equal, they are 1."""
    by_measure: dict[str, list[float]] = {}
    for oracle, results in rankings.items():
        by_measure.setdefault(measures.get(oracle, oracle), []).extend(each.strength for each in results)
    scaled = {}
    for oracle, results in rankings.items():
        strengths = by_measure[measures.get(oracle, oracle)]
        if not strengths:
            continue
        least, most = min(strengths), max(strengths)
        for each in results:
            share = (each.strength - least) / (most - least) if most > least else 1.0
            scaled[oracle, key_of(each)] = share
    return scaled


def _fused(
    places: _Places, gains: Mapping[str, float], shares: Mapping[str, float], k: int, best_possible: float
) -> FusedResult:
    shown = places[max(gains, key=lambda oracle: gains[oracle])][1]
    gain = math.fsum(gains.values())  # exact, so that the order of the oracles cannot make a difference
    return FusedResult(
        doc_id=shown.doc_id,
        collection=shown.collection,
        chunk_id=shown.chunk_id,
        content=shown.content,
        score=min(1.0, gain / best_possible) if best_possible else 0.0,
        rrf_score=math.fsum([shares[oracle] / (k + rank) for oracle, (rank, _) in places.items()]),
        sources=tuple(places),
        provenance={oracle: Provenance(rank, result.score) for oracle, (rank, result) in places.items()},
        metadata=shown.metadata,
    )
