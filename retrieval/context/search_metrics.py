"""Metrics of searches: a row for each in the catalogue's database, series for Prometheus, and statistics."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from prometheus_client import Counter, Histogram

from schemas.access.owners import OWNER_COLUMN, Asker
from schemas.contracts.context import ContextStats, TimeRange
from schemas.errors import RagError
from schemas.shared_database import Database, Place, Transaction
from schemas.storage.erasure import Target
from schemas.storage.small_tables import Condition, Part, Table, having, owned_by

log = structlog.get_logger(__name__)

QUERY_CHARACTERS = 200
"""The number of characters of a query that its row keeps (contract *context*, "Metrics Schema"). Names are cut there
too."""
WAIT_SECONDS = 0.5
"""The longest that a search waits for others to write before its row is given up."""
TIDY_SECONDS = 600.0
DAY_SECONDS = 86_400.0
RANGES_SECONDS: Mapping[TimeRange, float] = {
    "1h": DAY_SECONDS / 24,
    "24h": DAY_SECONDS,
    "7d": 7 * DAY_SECONDS,
    "30d": 30 * DAY_SECONDS,
}

SEARCHES = Counter("rag_context_searches", "Context searches", ["level", "cache_hit"])
SEARCH_SECONDS = Histogram(
    "rag_context_search_duration_seconds",
    "Time of a context search",
    ["level"],
    buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5),
)
ROWS_LOST = Counter("rag_context_metrics_lost", "Rows of context searches that could not be kept")

STEPS = (
    (
        """CREATE TABLE search_metrics (
            timestamp_ms BIGINT NOT NULL, query {text} NOT NULL, results_count BIGINT NOT NULL,
            latency_ms DOUBLE PRECISION NOT NULL, embedding_latency_ms DOUBLE PRECISION,
            vector_latency_ms DOUBLE PRECISION, fallback BIGINT NOT NULL, fallback_level BIGINT NOT NULL,
            cache_hit BIGINT NOT NULL, agent {text} NOT NULL, content_type {text}, category {text}, game {text},
            error {text}
        )""",
        "CREATE INDEX search_metrics_by_time ON search_metrics (timestamp_ms)",
    ),
    (f"ALTER TABLE search_metrics ADD COLUMN {OWNER_COLUMN}",),
    (
        "CREATE TABLE search_metrics_forgotten (at_ms BIGINT NOT NULL)",
        "INSERT INTO search_metrics_forgotten VALUES (0)",
    ),
)


METRICS = Table("search_metrics", lambda: None, order="timestamp_ms")


class SearchMetrics(Part):
    """Keeps metrics of searches for `days`, usable by several threads.

    A row that cannot be kept is counted and logged, and never fails a search.
    """

    def __init__(self, database: Database, *, days: int, clock: Callable[[], float] = time.time) -> None:
        self._days = days
        self._tidied_at = -math.inf
        place = Place("metrics of searches", "all questions left out", self.erase, fills_late=True)
        super().__init__(database, "search metrics", STEPS, place, clock=clock)

    def record(self, row: Mapping[str, Any]) -> None:
        """Count a search and store its row, the values of all columns. Latencies of what was not asked are None."""
        level, now = str(row["fallback_level"]), self._clock()
        SEARCHES.labels(level, str(row["cache_hit"]).lower()).inc()
        SEARCH_SECONDS.labels(level).observe(row["latency_ms"] / 1e3)
        cut = {each: row[each][:QUERY_CHARACTERS] for each in ("query", "agent", "game") if row[each] is not None}

        def insert(transaction: Transaction) -> None:
            forgotten = transaction.row("SELECT at_ms FROM search_metrics_forgotten")
            if forgotten is None or row["timestamp_ms"] - row["latency_ms"] > forgotten[0]:
                METRICS.insert(transaction, **{**row, **cut})

        try:
            if now - self._tidied_at >= TIDY_SECONDS:
                self._tidied_at = now
                too_old = Condition("timestamp_ms < ?", (round((now - self._days * DAY_SECONDS) * 1e3),))
                self._database.freely.commit_quickly(
                    lambda transaction: METRICS.delete(transaction, too_old), wait_seconds=WAIT_SECONDS
                )
            self._database.commit_quickly(insert, wait_seconds=WAIT_SECONDS)
        except RagError as error:
            ROWS_LOST.inc()
            log.warning("a search is not in the statistics", reason=error.message)

    def statistics(self, time_range: TimeRange, total_documents: int, *, asker: Asker) -> ContextStats:
        """Return statistics of the asker's searches, of everybody's for those who see all; 0 where there was no search.

        Percentiles are by nearest rank: the p-th is the smallest latency that at least p percent of the searches did
        not exceed. Raises UnavailableError when the database does not answer.
        """
        since_ms = self._now_ms() - round(RANGES_SECONDS[time_range] * 1e3)
        asked = owned_by(asker) & Condition("timestamp_ms >= ?", (since_ms,))
        counted, since = f"FROM search_metrics WHERE {asked.sql}", asked.parameters
        with self._database.read() as transaction:
            row = transaction.row(f"SELECT COUNT(*), AVG(latency_ms), SUM(cache_hit), SUM(fallback) {counted}", since)
            count = 0 if row is None else int(row[0])
            if row is None or count == 0:
                return ContextStats(time_range, total_documents, 0, 0.0, 0.0, 0.0, 0.0, 0.0, {})
            agents = transaction.rows(f"SELECT agent, COUNT(*) {counted} GROUP BY agent ORDER BY agent", since)
            return ContextStats(
                time_range,
                total_documents,
                total_queries=count,
                average_latency_ms=round(float(row[1]), 3),
                p95_latency_ms=_percentile(transaction, counted, since, 95, count),
                p99_latency_ms=_percentile(transaction, counted, since, 99, count),
                cache_hit_rate=int(row[2]) / count,
                fallback_rate=int(row[3]) / count,
                queries_by_agent={str(agent): int(number) for agent, number in agents},
            )

    def erase(self, target: Target) -> int:
        """Leave the questions out of all rows, and return their number. What statistics are made of stays.

        Nothing tells which question was about which document. Of an erased user whole rows go, and so do those of
        searches under way, which are known by their time: services on one catalogue need clocks that agree.
        """

        def operation(transaction: Transaction) -> int:
            with_question = Condition("query <> ''")
            number = METRICS.count(transaction, with_question)
            METRICS.update(transaction, with_question, query="")
            transaction.run("UPDATE search_metrics_forgotten SET at_ms = ?", (self._now_ms(),))
            METRICS.delete(transaction, having(owner=target.owner))
            return number

        return self._database.freely.commit(operation)


def _percentile(transaction: Transaction, counted: str, since: tuple[object, ...], percent: int, count: int) -> float:
    before = -(-percent * count // 100) - 1
    row = transaction.row(f"SELECT latency_ms {counted} ORDER BY latency_ms LIMIT 1 OFFSET ?", (*since, before))
    return 0.0 if row is None else float(row[0])
