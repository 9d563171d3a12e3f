"""Taking a service's answer apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from schemas.errors import UnavailableError


@contextmanager
def reading(service: str, *failures: type[Exception]) -> Iterator[None]:
    """What is not there, or of another type than agreed, is an UnavailableError about `service`. `failures` are what
    the service's own library says of that."""
    unexpected: tuple[type[Exception], ...] = (LookupError, TypeError, ValueError, AttributeError, *failures)
    try:
        yield
    except unexpected as error:
        raise UnavailableError(
            f"{service} answered something unexpected", code="answer_unusable", error_type="unknown"
        ) from error
