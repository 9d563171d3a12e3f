"""Reciprocal rank fusion: several best-first lists become one, by their ranks alone.

The method is that of Cormack, Clarke and Büttcher (2009); the contract *search* asks for it as "RRF Fusion".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from schemas.contracts.search import FusedResult, OracleResult, Provenance

DEFAULT_K = 60
DocumentKey = tuple[str, str]
"""(id of a document, collection): the same id in two collections is two documents."""


def rrf_fuse(
    rankings: Mapping[str, Sequence[OracleResult]],
    *,
    k: int = DEFAULT_K,
    weights: Mapping[str, float] | None = None,
) -> list[FusedResult]:
    """Return all documents of the rankings, best first.

    `rrf_score` is Σ weight / (k + rank) over the oracles that found the document; an oracle without a weight has 1.
    Ranks count documents from 1: of several chunks of one document only the best has a rank. Equal scores are sorted by
    id. `score` is the share of what a document would have that is first everywhere. A document shows the chunk that
    counted most for it.
    """
    shares = weights or {}
    ranked = {oracle: _documents(ranking) for oracle, ranking in rankings.items()}
    best_possible = math.fsum(shares.get(oracle, 1.0) / (k + 1) for oracle in rankings)
    found: dict[DocumentKey, dict[str, tuple[int, OracleResult]]] = {}
    for oracle, documents in ranked.items():
        for rank, (key, result) in enumerate(documents.items(), start=1):
            found.setdefault(key, {})[oracle] = (rank, result)
    fused = [
        _fused(
            {oracle: shares.get(oracle, 1.0) / (k + rank) for oracle, (rank, _) in places.items()},
            places,
            best_possible,
        )
        for places in found.values()
    ]
    return sorted(fused, key=lambda result: (-result.rrf_score, result.doc_id, result.collection))


def key_of(result: OracleResult | FusedResult) -> DocumentKey:
    """Return what tells the result's document from all others."""
    return result.doc_id, result.collection


def _documents(ranking: Sequence[OracleResult]) -> dict[DocumentKey, OracleResult]:
    documents: dict[DocumentKey, OracleResult] = {}
    for result in ranking:
        documents.setdefault(key_of(result), result)
    return documents


def _fused(
    parts: Mapping[str, float], places: Mapping[str, tuple[int, OracleResult]], best_possible: float
) -> FusedResult:
    shown = places[max(parts, key=lambda oracle: parts[oracle])][1]
    rrf_score = math.fsum(parts.values())  # exact, so that the order of the oracles cannot make a difference
    return FusedResult(
        doc_id=shown.doc_id,
        collection=shown.collection,
        chunk_id=shown.chunk_id,
        content=shown.content,
        score=min(1.0, rrf_score / best_possible) if best_possible else 0.0,
        rrf_score=rrf_score,
        sources=tuple(places),
        provenance={oracle: Provenance(rank, result.score) for oracle, (rank, result) in places.items()},
        metadata=shown.metadata,
    )
