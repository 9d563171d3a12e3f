"""The tool `rag_context_health`: each part asked at the same time, none for longer than `LIMIT_SECONDS`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTimeError
from typing import Any

import structlog

from retrieval.breaker import CircuitBreaker
from retrieval.clock import milliseconds_since, utc_now, z_time
from schemas.connections import DEGRADED, HEALTHY, UNHEALTHY
from schemas.errors import RagError

log = structlog.get_logger(__name__)

LIMIT_SECONDS = 2.0
PARALLEL = 8
STORAGE, TEXT_SEARCH, VECTOR_STORE = "storage", "textSearch", "vectorStore"

Probe = Callable[[], None]


class ContextHealth:
    """Usable by several threads; never raises. A probe raises RagError with the reason when its part is down."""

    def __init__(
        self, probes: Mapping[str, Probe], indexed_documents: Callable[[], int], breaker: CircuitBreaker
    ) -> None:
        self._probes = probes
        self._indexed_documents = indexed_documents
        self._breaker = breaker
        self._pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix="context-health")

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def run(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """`unhealthy` when the storage is down, `degraded` when another part is or the breaker is not closed: then
        searches are answered from what is left."""
        began = time.perf_counter()
        asked = {name: self._pool.submit(_look, probe) for name, probe in self._probes.items()}
        counted = self._pool.submit(self._indexed_documents)
        until = time.monotonic() + LIMIT_SECONDS
        parts = {name: _part(look, until) for name, look in asked.items()}
        documents = _count(counted, until)
        is_open = not self._breaker.is_closed()
        healthy = all(part["healthy"] for part in parts.values()) and not is_open
        return {
            "healthy": healthy,
            "status": HEALTHY if healthy else DEGRADED if parts[STORAGE]["healthy"] else UNHEALTHY,
            **parts,
            "latency": milliseconds_since(began),
            "indexedDocuments": documents,
            "circuitBreakerOpen": is_open,
            "timestamp": z_time(utc_now()),
        }


def _look(probe: Probe) -> dict[str, Any]:
    began = time.perf_counter()
    error = None
    try:
        probe()
    except RagError as failure:
        error = failure.message
    except Exception:
        log.exception("a part could not be asked how it is")
        error = "The check failed for a reason that is in the log"
    part = {"healthy": error is None, "latencyMs": milliseconds_since(began)}
    return part if error is None else part | {"error": error}


def _part(look: Future[dict[str, Any]], until: float) -> dict[str, Any]:
    try:
        return look.result(max(0.0, until - time.monotonic()))
    except NotInTimeError:
        look.cancel()
        sentence = f"No answer within {LIMIT_SECONDS:g} s"
        return {"healthy": False, "latencyMs": LIMIT_SECONDS * 1e3, "error": sentence}


def _count(counted: Future[int], until: float) -> int | None:
    try:
        return counted.result(max(0.0, until - time.monotonic()))
    except NotInTimeError:
        counted.cancel()
    except RagError as error:
        log.warning("indexed documents cannot be counted", reason=error.message)
    return None
