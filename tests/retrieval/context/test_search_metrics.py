"""Metrics of searches: the contents of a row, statistics that add up, and a store that fails."""

import pytest
from prometheus_client import REGISTRY

from retrieval.context.search_metrics import DAY_SECONDS, QUERY_CHARACTERS, TIDY_SECONDS, SearchMetrics
from schemas.access.owners import OPEN, Asker
from schemas.errors import DiskFloorError
from schemas.storage.erasure import Target
from tests.support.logs import logs_of
from wrapper.floored_catalog import FlooredCatalog

DAYS = 30
ALL = Asker(sees_all=True)


@pytest.fixture
def workers(catalogs, clock):
    """`workers()`: the service's metrics, each time as another worker has them."""
    return lambda catalog=None: SearchMetrics(catalog or catalogs(), days=DAYS, clock=clock)


@pytest.fixture
def row(clock):
    def make(**changes):
        usual = {
            "timestamp_ms": round(clock.now * 1e3),
            "query": "how long are backups kept",
            "results_count": 5,
            "latency_ms": 12.5,
            "embedding_latency_ms": 8.25,
            "vector_latency_ms": None,
            "fallback": False,
            "fallback_level": 1,
            "cache_hit": False,
            "agent": "unknown",
            "content_type": None,
            "category": None,
            "game": None,
            "error": None,
            "owner": OPEN,
        }
        return usual | changes

    return make


def stored(catalog, columns):
    with catalog.read() as transaction:
        return transaction.rows(f"SELECT {columns} FROM search_metrics ORDER BY latency_ms")


@pytest.mark.parametrize("catalogs", ["sqlite", "postgresql"], indirect=True)
def test_a_row_is_as_it_was_given_with_the_query_cut(workers, catalogs, row):
    metrics = workers()
    metrics.record(
        row(query="x" * (QUERY_CHARACTERS + 1), game="FireKirin\0", fallback=True, fallback_level=3, error="no")
    )
    columns = "query, results_count, latency_ms, embedding_latency_ms, vector_latency_ms, fallback, fallback_level"
    assert stored(catalogs(), columns) == [("x" * QUERY_CHARACTERS, 5, 12.5, 8.25, None, 1, 3)]
    assert stored(catalogs(), "cache_hit, agent, content_type, game, error") == [
        (0, "unknown", None, "FireKirin\0", "no")
    ]


@pytest.mark.parametrize(
    ("count", "p95", "p99"), [(1, 1.0, 1.0), (2, 2.0, 2.0), (20, 19.0, 20.0), (21, 20.0, 21.0), (100, 95.0, 99.0)]
)
def test_percentiles_are_the_nearest_rank(workers, row, count, p95, p99):
    metrics = workers()
    for latency in range(count, 0, -1):
        metrics.record(row(latency_ms=float(latency)))
    found = metrics.statistics("1h", 0, asker=ALL)
    assert (found.p95_latency_ms, found.p99_latency_ms) == (p95, p99)
    assert (found.total_queries, found.average_latency_ms) == (count, (count + 1) / 2)


def test_rates_and_agents_of_the_time_asked_for_are_counted_and_no_searches_are_zeros(workers, row, clock):
    found = workers().statistics("1h", 0, asker=ALL)
    assert (found.total_queries, found.p99_latency_ms, found.fallback_rate, found.queries_by_agent) == (0, 0.0, 0.0, {})
    metrics = workers()
    for number in range(8):
        metrics.record(row(cache_hit=number < 2, fallback=number == 7, agent="ann" if number < 5 else "bob"))
    found = metrics.statistics("1h", 0, asker=ALL)
    assert (found.cache_hit_rate, found.fallback_rate) == (0.25, 0.125)
    assert found.queries_by_agent == {"ann": 5, "bob": 3}
    clock.now += 3_601
    metrics.record(row())
    assert [metrics.statistics(each, 0, asker=ALL).total_queries for each in ("1h", "24h", "7d", "30d")] == [1, 9, 9, 9]


def test_rows_that_are_too_old_go_also_from_a_disk_without_room(workers, catalogs, row, clock):
    def refuse():
        raise DiskFloorError("no room")

    metrics = workers()
    metrics.record(row(latency_ms=1.0))
    clock.now += DAYS * DAY_SECONDS + TIDY_SECONDS
    metrics.record(row(latency_ms=2.0))
    assert stored(catalogs(), "latency_ms") == [(2.0,)]
    clock.now += DAYS * DAY_SECONDS + TIDY_SECONDS
    workers(FlooredCatalog(catalogs(), refuse)).record(row())
    assert stored(catalogs(), "latency_ms") == []


def test_what_cannot_be_stored_is_counted_and_a_warning(workers, catalogs, row, monkeypatch):
    said = logs_of(monkeypatch, "retrieval.context.search_metrics")
    catalog = catalogs()
    metrics = workers(catalog)
    lost = REGISTRY.get_sample_value("rag_context_metrics_lost_total")
    catalog.commit(lambda transaction: transaction.run("DROP TABLE search_metrics"))
    metrics.record(row())
    assert [each["event"] for each in said] == ["a search is not in the statistics"]
    assert REGISTRY.get_sample_value("rag_context_metrics_lost_total") == lost + 1


def test_a_search_under_way_when_questions_were_forgotten_is_left_out(workers, catalogs, row, clock):
    metrics = workers()
    metrics.record(row())
    clock.now += 1
    assert metrics.erase(Target()) == 1
    clock.now += 0.005
    metrics.record(row(latency_ms=6.0))
    metrics.record(row(latency_ms=4.0))
    assert metrics.statistics("1h", 0, asker=ALL).total_queries == 2
    assert [text for (text,) in stored(catalogs(), "query")].count("") == 1
