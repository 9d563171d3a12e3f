"""Counts of what is stored, and statistics of searches (`RagStats` of the contract *context*)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from retrieval.context.search_metrics import SearchMetrics
from schemas.access.owners import Asker
from schemas.contracts.context import ContextStats, TimeRange

HOUR_SECONDS = 3_600.0
RANGES_SECONDS: Mapping[TimeRange, float] = {
    "1h": HOUR_SECONDS,
    "24h": 24 * HOUR_SECONDS,
    "7d": 168 * HOUR_SECONDS,
    "30d": 720 * HOUR_SECONDS,
}


class ContextStatistics:
    """Reports the searches of a time range."""

    def __init__(self, metrics: SearchMetrics, indexed_documents: Callable[[], int]) -> None:
        self._metrics = metrics
        self._indexed_documents = indexed_documents

    def report(self, asked: TimeRange, *, asker: Asker) -> ContextStats:
        """Return statistics as `SearchStatistics` has them. Raises UnavailableError when the database does not
        answer."""
        found = self._metrics.statistics(RANGES_SECONDS[asked], asker=asker)
        return ContextStats(
            asked,
            total_documents=self._indexed_documents(),
            total_queries=found.queries,
            average_latency_ms=round(found.average_latency_ms, 3),
            p95_latency_ms=found.p95_latency_ms,
            p99_latency_ms=found.p99_latency_ms,
            cache_hit_rate=found.cache_hit_rate,
            fallback_rate=found.fallback_rate,
            queries_by_agent=found.queries_by_agent,
        )
