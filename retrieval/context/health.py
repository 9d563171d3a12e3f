"""The health of the parts that searches need: all are asked at once, each for `LIMIT_SECONDS` at most."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import structlog

from retrieval.asking import ask_within
from retrieval.clock import milliseconds_since, utc_now, z_time
from retrieval.context.breaker import CircuitBreaker
from schemas.connections import DEGRADED, HEALTHY, UNHEALTHY
from schemas.contracts.context import STORAGE, ContextHealthReport, PartHealth

log = structlog.get_logger(__name__)

LIMIT_SECONDS = 2.0
PARALLEL = 8

Probe = Callable[[], None]


class ContextHealth:
    """Asks after the parts that there are now, usable by several threads. A probe raises RagError with the reason when
    a part is down."""

    def __init__(
        self, probes: Callable[[], Mapping[str, Probe]], indexed_documents: Callable[[], int], breaker: CircuitBreaker
    ) -> None:
        self._probes = probes
        self._indexed_documents = indexed_documents
        self._breaker = breaker
        self._pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix="context-health")

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def report(self) -> ContextHealthReport:
        """Return the report, and never raise.

        The status is `unhealthy` when the storage is down, and `degraded` when another part is down or the breaker is
        not closed: searches are then answered from the parts that are left.
        """
        began = time.perf_counter()
        asked = {name: ask_within(LIMIT_SECONDS, self._pool.submit, probe) for name, probe in self._probes().items()}
        counted = ask_within(LIMIT_SECONDS, self._pool.submit, self._indexed_documents)
        outcomes = {name: outcome() for name, outcome in asked.items()}
        parts = {
            name: PartHealth(each.milliseconds, None if each.error is None else each.error.message)
            for name, each in outcomes.items()
        }
        documents = counted()
        if documents.error is not None:
            log.warning("indexed documents cannot be counted", reason=documents.error.message)
        is_open = not self._breaker.is_closed()
        healthy = all(part.healthy for part in parts.values()) and not is_open
        return ContextHealthReport(
            HEALTHY if healthy else DEGRADED if parts[STORAGE].healthy else UNHEALTHY,
            parts,
            milliseconds_since(began),
            indexed_documents=documents.value,
            circuit_breaker_open=is_open,
            timestamp=z_time(utc_now()),
        )
