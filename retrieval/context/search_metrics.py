"""Metrics of searches: a row for each in the catalogue's database, series for Prometheus, and statistics."""

from __future__ import annotations

import fcntl
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog
from prometheus_client import Counter, Histogram

from retrieval.context.background_writer import BackgroundWriter
from schemas.access.owners import OPEN, OWNER_COLUMN, Asker
from schemas.errors import RagError, UnavailableError
from schemas.shared_database import Database, Transaction

log = structlog.get_logger(__name__)

QUERY_CHARACTERS = 200
"""The number of characters of a query that its row keeps (contract *context*, "Metrics Schema"). Names are cut there
too."""
MOST_WAITING = 10_000
"""The most rows that may wait to be written. Further searches are left out of the statistics."""
FLUSH_SECONDS = 1.0
"""The seconds that statistics wait for the rows of searches that were answered before."""
TIDY_SECONDS = 600.0
DAY_SECONDS = 86_400.0

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
_INSERT = f"INSERT INTO search_metrics VALUES ({', '.join('?' * 15)})"


@dataclass(frozen=True, slots=True)
class SearchRow:
    """One search, in the order of the columns. Latencies of what was not asked are None.

    The contract *context* calls the columns timestamp, query (cut at 200 characters), resultsCount, latencyMs,
    embeddingLatencyMs, vectorLatencyMs, fallback, fallbackLevel, cacheHit, agent, contentType, category, game and error
    (at level 3 only). `owner` is whoever searched, which no contract knows.
    """

    timestamp_ms: int
    query: str
    results_count: int
    latency_ms: float
    embedding_latency_ms: float | None
    vector_latency_ms: float | None
    fallback: bool
    fallback_level: int
    cache_hit: bool
    agent: str
    content_type: str | None
    category: str | None
    game: str | None
    error: str | None
    owner: str = OPEN


@dataclass(frozen=True, slots=True)
class SearchStatistics:
    """Latencies in milliseconds and rates in [0, 1], all 0 where there was no search.

    Percentiles are by nearest rank: the p-th is the smallest latency that at least p percent of the searches did not
    exceed.
    """

    queries: int
    average_latency_ms: float
    p95_latency_ms: float
    p99_latency_ms: float
    cache_hit_rate: float
    fallback_rate: float
    queries_by_agent: Mapping[str, int]


class SearchMetrics:
    """Keeps metrics of searches for `days`, usable by several threads.

    A row that cannot be kept is counted and logged, and never fails a search. Rows are written by a thread of their
    own, each batch as soon as the one before is written. While rows of a worker wait, the worker holds a share of
    `lock_file`, which ends with its process. Reading statistics waits until nobody holds one, for `FLUSH_SECONDS` at
    most, and so counts every search on this machine that was answered before.
    """

    def __init__(
        self, database: Database, lock_file: Path, *, days: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._days = days
        self._clock = clock
        self._tidied_at = -math.inf
        database.open_part("search metrics", STEPS)
        lock_file.parent.mkdir(parents=True, exist_ok=True)
        self._shared, self._alone = lock_file.open("ab"), lock_file.open("ab")
        self._rows: BackgroundWriter[SearchRow] = BackgroundWriter(
            "search-metrics", self._write, most_waiting=MOST_WAITING, busy=self._say_busy
        )

    def close(self) -> None:
        """Write the rows that wait, then close the files."""
        self._rows.close()
        self._shared.close()
        self._alone.close()

    def record(self, row: SearchRow) -> None:
        """Count a search and have its row written."""
        level = str(row.fallback_level)
        SEARCHES.labels(level, str(row.cache_hit).lower()).inc()
        SEARCH_SECONDS.labels(level).observe(row.latency_ms / 1e3)
        if not self._rows.put(row):
            ROWS_LOST.inc()
            log.warning("a search is not in the statistics", reason=f"{MOST_WAITING} rows wait to be written")

    def statistics(self, seconds: float, *, asker: Asker) -> SearchStatistics:
        """Return statistics of the asker's searches in the last `seconds`, of everybody's for those who see all.

        Raises UnavailableError when the database does not answer.
        """
        if not self._is_flushed():
            log.warning("statistics may lack the last searches", reason=f"Not written within {FLUSH_SECONDS} s")
        counted = "FROM search_metrics WHERE timestamp_ms >= ?" + ("" if asker.sees_all else " AND owner = ?")
        since = (self._now_ms() - round(seconds * 1e3), *(() if asker.sees_all else (asker.owner,)))
        with self._database.read() as transaction:
            row = transaction.row(f"SELECT COUNT(*), AVG(latency_ms), SUM(cache_hit), SUM(fallback) {counted}", since)
            count = 0 if row is None else int(row[0])
            if row is None or count == 0:
                return SearchStatistics(0, 0.0, 0.0, 0.0, 0.0, 0.0, {})
            agents = transaction.rows(f"SELECT agent, COUNT(*) {counted} GROUP BY agent ORDER BY agent", since)
            return SearchStatistics(
                queries=count,
                average_latency_ms=float(row[1]),
                p95_latency_ms=_percentile(transaction, counted, since, 95, count),
                p99_latency_ms=_percentile(transaction, counted, since, 99, count),
                cache_hit_rate=int(row[2]) / count,
                fallback_rate=int(row[3]) / count,
                queries_by_agent={str(agent): int(number) for agent, number in agents},
            )

    def forget_questions(self, owner: str | None = None) -> int:
        """Leave the questions out of all rows, and return their number. What statistics are made of stays.

        Nothing tells which question was about which document. Of an `owner` whole rows go, and so do those of searches
        under way, which are known by their time: services on one catalogue need clocks that agree.
        """
        if not self._is_flushed():
            raise UnavailableError("The metrics of searches are still being written")

        def operation(transaction: Transaction) -> int:
            row = transaction.row("SELECT count(*) FROM search_metrics WHERE query <> ''")
            transaction.run("UPDATE search_metrics SET query = '' WHERE query <> ''")
            transaction.run("UPDATE search_metrics_forgotten SET at_ms = ?", (self._now_ms(),))
            if owner:
                transaction.run("DELETE FROM search_metrics WHERE owner = ?", (owner,))
            return 0 if row is None else int(row[0])

        return self._database.freely.commit(operation)

    def _is_flushed(self) -> bool:
        until = time.monotonic() + FLUSH_SECONDS
        return self._rows.flush(FLUSH_SECONDS) and self._others_are_done(until)

    def _write(self, rows: list[SearchRow]) -> None:
        now = self._clock()
        tidies = now - self._tidied_at >= TIDY_SECONDS
        too_old_ms = round((now - self._days * DAY_SECONDS) * 1e3)

        def tidy(transaction: Transaction) -> None:
            transaction.run("DELETE FROM search_metrics WHERE timestamp_ms < ?", (too_old_ms,))

        def insert(transaction: Transaction) -> None:
            forgotten = transaction.row("SELECT at_ms FROM search_metrics_forgotten")
            for row in rows:
                if forgotten is None or row.timestamp_ms - row.latency_ms > forgotten[0]:
                    transaction.run(_INSERT, _values(row))

        try:
            if tidies:
                self._database.freely.commit_quickly(tidy)
                self._tidied_at = now
            self._database.commit_quickly(insert)
        except RagError as error:
            ROWS_LOST.inc(len(rows))
            log.warning("searches are not in the statistics", searches=len(rows), reason=error.message)

    def _say_busy(self, is_busy: bool) -> None:
        with suppress(OSError):
            fcntl.flock(self._shared, fcntl.LOCK_SH if is_busy else fcntl.LOCK_UN)

    def _others_are_done(self, until: float) -> bool:
        while True:
            try:
                fcntl.flock(self._alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() > until:
                    return False
                time.sleep(0.002)
            else:
                fcntl.flock(self._alone, fcntl.LOCK_UN)
                return True

    def _now_ms(self) -> int:
        return round(self._clock() * 1e3)


def _values(row: SearchRow) -> tuple[object, ...]:
    return (
        row.timestamp_ms,
        row.query[:QUERY_CHARACTERS],
        row.results_count,
        row.latency_ms,
        row.embedding_latency_ms,
        row.vector_latency_ms,
        int(row.fallback),
        row.fallback_level,
        int(row.cache_hit),
        row.agent[:QUERY_CHARACTERS],
        row.content_type,
        row.category,
        None if row.game is None else row.game[:QUERY_CHARACTERS],
        row.error,
        row.owner,
    )


def _percentile(transaction: Transaction, counted: str, since: tuple[object, ...], percent: int, count: int) -> float:
    before = -(-percent * count // 100) - 1
    row = transaction.row(f"SELECT latency_ms {counted} ORDER BY latency_ms LIMIT 1 OFFSET ?", (*since, before))
    return 0.0 if row is None else float(row[0])
