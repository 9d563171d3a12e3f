"""Asking what may hang or fail: in a thread of a pool, for a limited time, and always with an outcome."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotInTimeError
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import structlog

from providers.outbound import deadlines
from retrieval.clock import milliseconds_since
from schemas.errors import RagError, UnavailableError
from schemas.storage import read_limits

log = structlog.get_logger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What came of asking, and how long it took: a value, or the error for which there is none."""

    milliseconds: float
    value: T | None = None
    error: RagError | None = None

    def get(self) -> T:
        """Return the value. Raises the error."""
        if self.error is not None:
            raise self.error
        return cast(T, self.value)


def ask_within(
    seconds: float, submit: Callable[[Callable[[], Outcome[T]]], Future[Outcome[T]]], work: Callable[[], T]
) -> Callable[[], Outcome[T]]:
    """Begin `work`, which `submit` hands to a pool, and return what waits for its outcome: until `seconds` from now.

    Nothing is raised, neither here nor by what is returned. Several may be begun before the first is waited for.
    """
    until = time.monotonic() + seconds
    too_late = UnavailableError(f"No answer within {seconds:.3g} s")

    def run() -> Outcome[T]:
        began = time.perf_counter()
        try:
            left_seconds = max(0.0, until - time.monotonic())
            # Set in this thread, so that what it reads and asks of services ends when nobody waits for it.
            with deadlines.within(left_seconds), read_limits.within(left_seconds):
                value = work()
            return Outcome(milliseconds_since(began), value)
        except RagError as failure:
            error = failure
        except Exception:
            log.exception("something failed in a way of its own", work=getattr(work, "__qualname__", repr(work)))
            error = UnavailableError("It failed for a reason that is in the log")
        return Outcome(milliseconds_since(began), error=too_late if time.monotonic() >= until else error)

    def wait() -> Outcome[T]:
        try:
            return asked.result(max(0.0, until - time.monotonic()))
        except NotInTimeError:
            asked.cancel()
            return Outcome(seconds * 1e3, error=too_late)
        except CancelledError:
            return Outcome(0.0, error=UnavailableError("The service stops"))

    try:
        asked = submit(read_limits.awaited(run))
    except RagError as error:
        refused: Outcome[T] = Outcome(0.0, error=error)
    except RuntimeError:  # the pool is shut down
        refused = Outcome(0.0, error=UnavailableError("The service stops"))
    else:
        return wait
    return lambda: refused
