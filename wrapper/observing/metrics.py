"""Prometheus metrics: requests are counted in every process, states are looked at in the background.

Under several workers prometheus-client keeps the counts in files (`PROMETHEUS_MULTIPROC_DIR`), so that any worker
answers for all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from wrapper.observing import gauges

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER_METHOD = "other"
"""What stands for all other methods: a client may name any."""

REQUESTS = Counter("rag_requests_total", "Requests answered", ["method", "route", "status"])
REQUEST_SECONDS = Histogram(
    "rag_request_duration_seconds",
    "Time to answer a request, until the end of an answer that is streamed",
    ["method", "route"],
    buckets=(0.005, 0.02, 0.05, 0.1, 0.5, 1, 5, 30),
)
FIRST_BYTE_SECONDS = Histogram(
    "rag_stream_first_byte_seconds",
    "Time to the first byte of an answer that is streamed",
    ["route"],
    buckets=(0.02, 0.1, 0.5, 1, 2, 5, 15, 60),
)
RESPONSE_BYTES = Counter("rag_response_bytes_total", "Bytes of bodies sent", ["route"])
STREAMS_CUT = Counter("rag_streams_cut_total", "Streamed answers that did not reach their end", ["route"])
QUERY_PLANS = Counter("rag_query_plans_total", "Vector queries by the plan taken", ["plan"])
REFUSED_REQUESTS = Counter(
    "rag_refused_requests_total",
    "Requests turned away: too many waited, the client was too slow, or its key has limits",
    ["code"],
)
LANE_REFUSED = Counter("rag_lane_refused_total", "Requests refused because their lane was full", ["lane"])
AUDIT_REFUSED = Counter("rag_audit_refused_total", "Requests refused because they could not be recorded", ["code"])

LANE_RUNNING = Gauge(
    "rag_lane_running", "Requests that have a place in their lane", ["lane"], multiprocess_mode="livesum"
)
LANE_WAITING = Gauge("rag_lane_waiting", "Requests that wait for a place", ["lane"], multiprocess_mode="livesum")
OLDEST_SNAPSHOT_SECONDS = Gauge(
    "rag_oldest_snapshot_seconds",
    "Age of the oldest read of the catalogue that is under way, 0 when there is none",
    multiprocess_mode="livemax",
)


def shared_folder() -> Path | None:
    """Return the folder of what all workers count together, None where this process is alone."""
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    return Path(folder) if folder else None


class GaugeSource(Protocol):
    def gauges(self) -> Iterable[gauges.Gauge]: ...


def exposition(source: GaugeSource) -> bytes:
    """Return all metrics in Prometheus' text format."""
    counted = CollectorRegistry()
    if shared_folder():
        multiprocess.MultiProcessCollector(counted)
    else:
        counted.register(_Ours())
    states = CollectorRegistry()
    states.register(_Collected(source))
    return generate_latest(counted) + generate_latest(states)


def begin(*, lanes: Iterable[str], audit_codes: Iterable[str]) -> None:
    """Have the counters that alerts look at from the start: of one that begins with 1, no growth is seen."""
    for lane in lanes:
        LANE_REFUSED.labels(lane)
    for code in audit_codes:
        AUDIT_REFUSED.labels(code)


def known_method(method: str) -> str:
    """Return a request's method as labels name it."""
    return method if method in METHODS else OTHER_METHOD


class _Ours(Collector):
    """What this process has counted, without what prometheus-client tells of processes, which is one of them only."""

    def collect(self) -> Iterator[Metric]:
        for family in REGISTRY.collect():
            if family.name.startswith("rag_"):
                family.samples = [each for each in family.samples if not each.name.endswith("_created")]
                yield family


class _Collected(Collector):
    def __init__(self, source: GaugeSource) -> None:
        self._source = source

    def collect(self) -> Iterator[Metric]:
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        for each in self._source.gauges():
            kind = CounterMetricFamily if each.name.endswith("_total") else GaugeMetricFamily
            family = families.setdefault(each.name, kind(each.name, each.meaning, labels=tuple(each.labels)))
            family.add_metric(tuple(each.labels.values()), each.value)
        yield from families.values()
