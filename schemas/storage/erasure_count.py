"""The count of erasures: what was made of something before its erasure is not stored after it.

Whoever stores what it made of documents, messages or questions reads the count before it reads these, and compares it
in the transaction of the write. The storage counts in the transaction that deletes the documents; each part above that
stores such things, in the transaction that removes what it has of them. So what was stored before is removed there,
what began before is refused, and what begins afterwards is made of nothing that was erased.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from schemas.errors import ConflictError
from schemas.shared_database import Database, Transaction

STEPS = (
    ("CREATE TABLE erasure_count (number BIGINT NOT NULL)", "INSERT INTO erasure_count VALUES (0)"),
    ("CREATE TABLE erasure_marks (mark VARCHAR(32) PRIMARY KEY)",),
)
UNKNOWN = -1
"""A count that nothing is stored with."""
_SINCE: ContextVar[int | None] = ContextVar("erasures before what is written began", default=None)


class ErasedMeanwhileError(ConflictError):
    """Something was erased since this began, perhaps what it was made of."""

    code = "erased_meanwhile"

    def __init__(self) -> None:
        super().__init__("Something was erased meanwhile, perhaps what this was made of: it was not stored")


def open_erasure_count(database: Database) -> None:
    database.open_part("erasure count", STEPS)


def erasures(transaction: Transaction) -> int:
    """Return the count."""
    row = transaction.row("SELECT number FROM erasure_count")
    assert row is not None
    return int(row[0])


def count_erasure(transaction: Transaction) -> None:
    """Let nothing be stored any more that began before."""
    transaction.run("UPDATE erasure_count SET number = number + 1")


def mark_erasure(transaction: Transaction, mark: str) -> None:
    """Note, in the transaction that deletes something, that it was deleted: `is_marked` tells so after a kill."""
    transaction.run("INSERT INTO erasure_marks VALUES (?)", (mark,))


def is_marked(transaction: Transaction, mark: str) -> bool:
    return transaction.row("SELECT 1 FROM erasure_marks WHERE mark = ?", (mark,)) is not None


def check_nothing_erased(transaction: Transaction, since: int) -> None:
    """Raise ErasedMeanwhileError when the count is not `since` any more."""
    if erasures(transaction) != since:
        raise ErasedMeanwhileError


@contextmanager
def storing_since(count: int) -> Iterator[None]:
    """Have the writes of documents within the block raise ErasedMeanwhileError when the count is not this any more."""
    token = _SINCE.set(count)
    try:
        yield
    finally:
        _SINCE.reset(token)


def check_write(transaction: Transaction) -> None:
    """Raise ErasedMeanwhileError for a write that `storing_since` refuses."""
    since = _SINCE.get()
    if since is not None:
        check_nothing_erased(transaction, since)
