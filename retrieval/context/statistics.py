"""The tool `rag_context_stats`: what is stored, and what searches were like (`RagStats` of seed 000)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrieval.metrics import SearchMetrics

HOUR_SECONDS = 3_600.0
RANGES_SECONDS = {"1h": HOUR_SECONDS, "24h": 24 * HOUR_SECONDS, "7d": 168 * HOUR_SECONDS, "30d": 720 * HOUR_SECONDS}


class ContextStatistics:
    def __init__(self, metrics: SearchMetrics, indexed_documents: Callable[[], int]) -> None:
        self._metrics = metrics
        self._indexed_documents = indexed_documents

    def run(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Latencies in milliseconds, rates in [0, 1]; percentiles are `SearchStatistics`'. Raises UnavailableError."""
        asked = arguments["timeRange"]
        found = self._metrics.statistics(RANGES_SECONDS[asked])
        return {
            "timeRange": asked,
            "totalDocuments": self._indexed_documents(),
            "totalQueries": found.queries,
            "avgLatency": round(found.average_latency_ms, 3),
            "p95Latency": found.p95_latency_ms,
            "p99Latency": found.p99_latency_ms,
            "cacheHitRate": found.cache_hit_rate,
            "fallbackRate": found.fallback_rate,
            "queriesByAgent": dict(found.queries_by_agent),
        }
