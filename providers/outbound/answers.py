"""Reading what a service answered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from schemas.errors import UnavailableError


@contextmanager
def reading(service: str, *failures: type[Exception]) -> Iterator[None]:
    """Raise UnavailableError about `service` when the block misses something in an answer, or finds it of another type.

    `failures` are the errors by which the service's own library says so.
    """
    unexpected: tuple[type[Exception], ...] = (LookupError, TypeError, ValueError, AttributeError, *failures)
    try:
        yield
    except unexpected as error:
        raise UnavailableError(
            f"{service} answered something unexpected", code="answer_unusable", error_type="unknown"
        ) from error
