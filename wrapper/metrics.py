"""Prometheus metrics: requests are counted in every process, gauges are read on demand.

Under several workers prometheus-client keeps the counts in files (`PROMETHEUS_MULTIPROC_DIR`), so that any worker
answers for all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Protocol

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess
from prometheus_client.core import GaugeMetricFamily

from wrapper import gauges

REQUEST_SECONDS = Histogram(
    "rag_request_duration_seconds",
    "Time to answer a request",
    ["method", "route", "status"],
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
QUERY_PLANS = Counter("rag_query_plans_total", "Vector queries by the plan taken", ["plan"])
REFUSED_REQUESTS = Counter(
    "rag_refused_requests_total",
    "Requests turned away: too many waited, the client was too slow, or its key has limits",
    ["code"],
)

OLDEST_SNAPSHOT_SECONDS = Gauge(
    "rag_oldest_snapshot_seconds",
    "Age of the oldest read of the catalogue that is under way, 0 when there is none",
    multiprocess_mode="livemax",
)


class GaugeSource(Protocol):
    def gauges(self) -> Iterable[gauges.Gauge]: ...


def exposition(source: GaugeSource) -> bytes:
    """Return all metrics in Prometheus' text format."""
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        counted = CollectorRegistry()
        multiprocess.MultiProcessCollector(counted)
    else:
        counted = REGISTRY
    states = CollectorRegistry()
    states.register(_Collected(source))
    return generate_latest(counted) + generate_latest(states)


class _Collected:
    def __init__(self, source: GaugeSource) -> None:
        self._source = source

    def collect(self) -> Iterator[GaugeMetricFamily]:
        families: dict[str, GaugeMetricFamily] = {}
        for name, meaning, value, collection in self._source.gauges():
            labels = {} if collection is None else {"collection": collection}
            family = families.setdefault(name, GaugeMetricFamily(name, meaning, labels=tuple(labels)))
            family.add_metric(tuple(labels.values()), value)
        yield from families.values()
