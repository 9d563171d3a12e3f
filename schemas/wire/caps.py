"""Numbers that were asked for and are more than one request gets: they are cut, and the answer says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_NOTED: ContextVar[list[str] | None] = ContextVar("numbers that were cut", default=None)
SHOWN_BELOW = 10**12
"""Numbers from here on are not repeated in a sentence."""


@contextmanager
def noting_caps() -> Iterator[list[str]]:
    """Collect in the block's list a sentence for each number that a body or query string is loaded with and that is
    cut."""
    noted: list[str] = []
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


def note_cap(field: str, asked: int, most: int) -> None:
    noted = _NOTED.get()
    if noted is not None:
        shown = f" instead of {asked:,}" if asked < SHOWN_BELOW else ""
        noted.append(f"{field} is {most:,}{shown}: one request gets no more")
