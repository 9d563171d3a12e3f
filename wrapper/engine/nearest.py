"""The engine as the planner sees it: the nearest ids, for many threads, and whether asking makes sense."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from schemas.errors import RagError
from schemas.observing import spans
from schemas.records import Vector
from wrapper.coalescing import Coalescer, Ticket
from wrapper.engine.client import EngineClient
from wrapper.engine.failures import EngineBrokenError, EngineRefusedError, EngineUnavailableError

QUERY_TIMEOUT_SECONDS = 5.0
DISTRUST_SECONDS = 2.0
QUERIES_PER_CALL = 16
CALLS_AT_ONCE = max(1, (os.cpu_count() or 1) // 2)
"""The most calls under way at once: half the processors are for searching, the other half for everything around it."""


@dataclass(frozen=True, slots=True)
class _Query:
    engine_id: str
    embedding: Vector
    n_results: int
    failures_before: int

    def goes_with(self, other: _Query) -> bool:
        return (
            self.engine_id == other.engine_id
            and self.n_results == other.n_results
            and self.failures_before == other.failures_before
            and len(self.embedding) == len(other.embedding)
        )


_Asked = Ticket[_Query, list[str]]


class EngineIndex:
    """Queries to the engine, of which those that arrive together are sent together.

    A call costs the engine as much beside the search as the search itself (`docs/engine.md`). After a query without an
    answer the engine is left alone for a moment, and then asked by one query alone: if all waiting queries came back at
    once, a slow engine would never recover.
    """

    def __init__(
        self, client: EngineClient, is_up: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._is_up = is_up
        self._clock = clock
        self._guard = threading.Lock()
        self._distrusted_until: float | None = None
        self._failures = 0
        self._queries: Coalescer[_Query, list[str]] = Coalescer(
            self._ask, most=QUERIES_PER_CALL, at_once=CALLS_AT_ONCE, alike=_Query.goes_with
        )

    def is_ready(self) -> bool:
        """Return False while the engine is known not to answer."""
        if self._distrusted_until is not None and not self._may_probe():
            return False
        return self._is_up()

    @spans.spanned("engine query")
    def nearest(self, engine_id: str, embedding: Vector, n_results: int) -> list[str]:
        """Return the ids of the nearest documents, nearest first.

        Raises UnavailableError when the engine does not answer.
        """
        return self._queries.do(_Query(engine_id, embedding, n_results, self._failures))

    def _ask(self, asked: list[_Asked]) -> None:
        first = asked[0].request
        if first.failures_before != self._failures:
            _fail(asked, EngineUnavailableError("The engine did not answer while this query waited for its turn"))
            return
        try:
            found = self._client.query(
                first.engine_id,
                np.stack([ticket.request.embedding for ticket in asked]),
                first.n_results,
                timeout_seconds=QUERY_TIMEOUT_SECONDS,
            )
        except EngineUnavailableError as error:
            self._failures += 1
            self._distrusted_until = self._clock() + DISTRUST_SECONDS
            _fail(asked, error)
        except EngineRefusedError as error:
            broken = EngineBrokenError("The engine refuses the query: its index is not as it should be")
            broken.__cause__ = error
            _fail(asked, broken)
        except RagError as error:
            _fail(asked, error)
        else:
            self._distrusted_until = None
            for ticket, ids in zip(asked, found, strict=True):
                ticket.succeed(ids)

    def _may_probe(self) -> bool:
        with self._guard:
            now = self._clock()
            if self._distrusted_until is None or now < self._distrusted_until:
                return self._distrusted_until is None
            self._distrusted_until = now + QUERY_TIMEOUT_SECONDS
            return True


def _fail(asked: list[_Asked], error: Exception) -> None:
    for ticket in asked:
        ticket.fail(error)
