"""Puts together what judges and measures the search: judgements, measurements, and what carries them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from retrieval.bench.background import BenchRunner
from retrieval.bench.judgements import Judgements
from retrieval.bench.stored_benches import StoredBenches
from retrieval.documents.stored_documents import StoredDocuments
from retrieval.search.engine import SearchEngine
from schemas.shared_database import Database


@dataclass(frozen=True, slots=True)
class QualityParts:
    judgements: Judgements
    benches: StoredBenches
    runner: BenchRunner


def open_quality(
    database: Database, engine: SearchEngine, documents: StoredDocuments, oracles: Sequence[str], fusion: str
) -> QualityParts:
    """Return the parts of a service whose search fuses these oracles in this way."""
    judgements, benches = Judgements(database), StoredBenches(database)
    runner = BenchRunner(engine, judgements, benches, documents, oracles=oracles, fusion=fusion)
    return QualityParts(judgements, benches, runner)
