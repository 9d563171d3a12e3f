"""Reading what a service answered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from schemas.documents import parse_embedding
from schemas.errors import InvalidInputError, UnavailableError
from schemas.records import Vector

UNUSABLE = "answer_unusable"
"""The code of an answer that is not what the service's protocol says."""


@contextmanager
def reading(service: str, *failures: type[Exception]) -> Iterator[None]:
    """Raise UnavailableError about `service` when the block misses something in an answer, or finds it of another type.

    `failures` are the errors by which the service's own library says so.
    """
    usual: tuple[type[Exception], ...] = (LookupError, TypeError, ValueError, AttributeError, OverflowError)
    try:
        yield
    except (*usual, *failures) as error:
        raise UnavailableError(
            f"{service} answered something unexpected", code=UNUSABLE, error_type="unknown"
        ) from error


def listed(answer: Any, name: str) -> list[Any]:
    """Return the list under a name. Raises LookupError or TypeError when the answer has none."""
    return array(answer[name])


def array(value: Any) -> list[Any]:
    """Return a list. Raises TypeError when the answer holds something else in its place."""
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def text(value: Any) -> str:
    """Return a name or a text. Raises TypeError when the answer holds something else in its place."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def identifier(value: Any) -> str:
    """Return an id, which some services write as a number. Raises TypeError when the answer holds something else in its
    place."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else text(value)


def number(value: Any) -> float:
    """Return a distance or a score. Raises TypeError when the answer holds something else in its place."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def whole(value: Any) -> int:
    """Return a count, which some services write as `3.0`. Raises TypeError or ValueError when the answer holds
    something else in its place."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not an integer")
    if value < 0:
        raise ValueError(f"{value} is negative")
    return value


def members(value: Any) -> dict[str, Any]:
    """Return an object, an empty one for null. Raises TypeError when the answer holds something else in its place."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is not an object")
    return value


def vector(embedding: Any) -> Vector:
    """Return an embedding. Raises ValueError when the answer holds something else in its place."""
    try:
        return parse_embedding(embedding)
    except InvalidInputError as error:  # the fault is the service's, not the caller's
        raise ValueError(error.message) from error
