"""The health of the parts that searches need: all are asked at once, each for `LIMIT_SECONDS` at most."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTimeError

import structlog

from retrieval.clock import milliseconds_since, utc_now, z_time
from retrieval.context.breaker import CircuitBreaker
from schemas.access.callers import carried
from schemas.connections import DEGRADED, HEALTHY, UNHEALTHY
from schemas.contracts.context import STORAGE, ContextHealthReport, PartHealth
from schemas.errors import RagError

log = structlog.get_logger(__name__)

LIMIT_SECONDS = 2.0
PARALLEL = 8

Probe = Callable[[], None]


class ContextHealth:
    """Asks after the parts, usable by several threads. A probe raises RagError with the reason when a part is down."""

    def __init__(
        self, probes: Mapping[str, Probe], indexed_documents: Callable[[], int], breaker: CircuitBreaker
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
        asked = {name: self._pool.submit(carried(_look), probe) for name, probe in self._probes.items()}
        counted = self._pool.submit(carried(self._indexed_documents))
        until = time.monotonic() + LIMIT_SECONDS
        parts = {name: _part(look, until) for name, look in asked.items()}
        documents = _count(counted, until)
        is_open = not self._breaker.is_closed()
        healthy = all(part.healthy for part in parts.values()) and not is_open
        return ContextHealthReport(
            HEALTHY if healthy else DEGRADED if parts[STORAGE].healthy else UNHEALTHY,
            parts,
            milliseconds_since(began),
            indexed_documents=documents,
            circuit_breaker_open=is_open,
            timestamp=z_time(utc_now()),
        )


def _look(probe: Probe) -> PartHealth:
    began = time.perf_counter()
    error = None
    try:
        probe()
    except RagError as failure:
        error = failure.message
    except Exception:
        log.exception("a part could not be asked how it is")
        error = "The check failed for a reason that is in the log"
    return PartHealth(milliseconds_since(began), error)


def _part(look: Future[PartHealth], until: float) -> PartHealth:
    try:
        return look.result(max(0.0, until - time.monotonic()))
    except NotInTimeError:
        look.cancel()
        return PartHealth(LIMIT_SECONDS * 1e3, f"No answer within {LIMIT_SECONDS:g} s")


def _count(counted: Future[int], until: float) -> int | None:
    try:
        return counted.result(max(0.0, until - time.monotonic()))
    except NotInTimeError:
        counted.cancel()
    except RagError as error:
        log.warning("indexed documents cannot be counted", reason=error.message)
    return None
