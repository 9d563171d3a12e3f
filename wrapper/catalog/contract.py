"""What the catalogue asks of a database: transactions, a dialect, and the database itself.

Tables and migrations use SQLAlchemy. Statements are SQL text sent through the driver's cursor, because they depend on
the shape of a filter: building and caching expression trees cost 2.7 ms of processor time for reading a section that
SQLite itself answers in 0.03 ms (`docs/performance.md`). Only fixed fragments are ever put together; every value from a
caller travels as a parameter. Both databases run the same text; `Dialect` names what they spell differently.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from schemas.errors import RagError, UnavailableError
from schemas.records import Collection
from schemas.storage.read_limits import ReadLimit
from schemas.where import EVERYTHING, Where

WAIT_SECONDS = 30.0
"""The most seconds that a write waits in all before it begins, behind others of its process and for other processes."""
LOCKED = "The catalogue is being written by another for too long: nothing was stored"
CLOSED = "The catalogue is closed: the service is stopping"
DEFECT = "The catalogue refused a statement: the reason is in the log"
TOO_COMPLEX = (
    "The database cannot read a request of this size: ask with fewer conditions, less deeply nested, or smaller values"
)
TOO_SLOW = "This took too long and was given up: ask for less, or with fewer conditions"

Row = tuple[Any, ...]


class Sql(NamedTuple):
    """A piece of SQL and the parameters for its question marks, in order."""

    text: str
    parameters: tuple[Any, ...] = ()


def balanced(operator: str, texts: Sequence[str]) -> str:
    """Return texts of SQL, at least one, joined by an operator as a balanced tree.

    A chain of a thousand operators is too deep for SQLite's parser; a tree of them is ten levels deep.
    """
    if len(texts) == 1:
        return texts[0]
    middle = len(texts) // 2
    return f"({balanced(operator, texts[:middle])}{operator}{balanced(operator, texts[middle:])})"


class Transaction(ABC):
    """A transaction used by one thread.

    `blocks` and all writes have no deadline but that of a request's reads; all else reads its result at once and has
    one.
    Statements have a question mark for each parameter. They raise the driver's errors.
    """

    dialect: Dialect

    @abstractmethod
    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]: ...

    @abstractmethod
    def row(self, sql: str, parameters: Sequence[Any] = ()) -> Row | None: ...

    @abstractmethod
    def value(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Return the first column of the first row. The statement must return a row."""

    def numbers(self, sql: str, parameters: Sequence[Any] = ()) -> NDArray[np.int64]:
        """Return the column `position` of all rows, the only one: (n,)."""
        return np.array([row[0] for row in self.rows(sql, parameters)], dtype=np.int64)

    @abstractmethod
    def blocks(self, sql: str, parameters: Sequence[Any], rows_at_once: int) -> Generator[list[Row]]:
        """Yield all rows, at most `rows_at_once` in memory. Who does not take all of them closes this before the end of
        the transaction."""

    @abstractmethod
    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None: ...

    @abstractmethod
    def run_many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> None: ...

    @abstractmethod
    def insert(self, table: str, columns: str, rows: Sequence[Row]) -> None:
        """Add rows; `columns` are the names of their columns, separated by commas."""

    @abstractmethod
    def text_matches(self, collection_key: int, pattern: str) -> Sql:
        """Return the condition that a regular expression matches the text of a row of `documents d`, which is one of
        the collection."""

    @abstractmethod
    def roll_back(self) -> None:
        """Undo what the transaction did; harmless when the database has undone it already."""


class WordRow(NamedTuple):
    """What the word index holds of a document: its `text`, the `heading` above it and the `tags` beside it.

    `language` is the one by whose rules the words are stemmed (`wrapper/catalog/words/languages.py`).
    """

    position: int
    heading: str
    text: str
    tags: str
    language: str


class EncodedSegment(NamedTuple):
    """The words of documents of one language as they are stored (`wrapper/catalog/words/segments.py`)."""

    language: str
    positions: NDArray[np.int64]
    lengths: NDArray[np.uint32]
    blocks: list[Row]


class PreparedWords(NamedTuple):
    """What the word index stores of documents: the words of each language, and (position, signature of the text)."""

    segments: list[EncodedSegment]
    signatures: list[tuple[int, list[int]]]


GiveWay = Callable[[], None]
"""Called now and then by long computations, so that those who keep others waiting go first (`Catalog.give_way`)."""


def go_on() -> None:
    """Give way to nobody."""


FieldRow = tuple[int, str, bytes, int]
"""A document's position, a path, a value as bytes (`sortable_values.py`) and the collection's key."""


class Ranked(NamedTuple):
    position: int
    score: float


class TextIndex(Protocol):
    """An index of the words of each collection's documents."""

    def drop(self, transaction: Transaction, collection_key: int) -> None: ...

    def prepare(self, rows: Sequence[WordRow], give_way: GiveWay = go_on) -> PreparedWords:
        """Return what `add` stores of documents, which needs no transaction."""

    def add(
        self, transaction: Transaction, collection_key: int, words: PreparedWords, places: Sequence[int] | None = None
    ) -> None:
        """Add the words of documents. With `places`, these are the positions, and the words have numbers in their
        list."""

    def remove(self, transaction: Transaction, collection_key: int, places: Sequence[int]) -> None:
        """Remove documents, given by their positions."""

    def best(
        self,
        transaction: Transaction,
        collection: Collection,
        query: str,
        where: Where,
        *,
        limit: int,
        seen: Where = EVERYTHING,
    ) -> tuple[list[Ranked], int]:
        """Return the best `limit` matches, and how many documents match in all.

        The answer is as if the collection had only the documents that match `seen`.

        A document matches when it has any word of `query` and meets `where`; no text is a syntax error. The best come
        first, equals in the order of insertion. Higher scores are better.
        """


class Matches(Protocol):
    """Which documents match filters, in the snapshot that `collection` was read from; never inside a write, whose
    documents have no revision yet."""

    def of(self, transaction: Transaction, collection: Collection, where: Where) -> NDArray[np.int64]:
        """Return the positions (n,) of all documents that match, in ascending order."""

    def count(self, transaction: Transaction, collection: Collection, where: Where) -> int:
        """Return exactly how many documents match."""


class Dialect(Protocol):
    bytes_type: str

    @property
    def text_index(self) -> TextIndex: ...

    @property
    def matches(self) -> Matches: ...

    def one_of(self, column: str, values: Sequence[int | str]) -> Sql:
        """Return the condition `column IN values`, for any number of values."""

    def with_ids(self, ids: Sequence[str]) -> Sql:
        """Return the condition that the id of a row of `documents d` is one of `ids`."""

    def text_contains_any(self, parts: Sequence[str]) -> Sql:
        """Return the condition that the text of a row of `documents d` contains any of the parts, letter for letter."""

    def text_contains(self, part: str) -> Sql:
        """Return the condition that the text of a row of `documents d` has this part, letter for letter."""

    def compared(self, alias: str, operator: str, value: bytes) -> Sql:
        """Return the condition that compares the value of a row of `document_fields` with `value`."""

    def among(self, alias: str, values: Sequence[bytes]) -> Sql:
        """Return the condition that the value of a row of `document_fields` is one of `values`."""

    def whole_value(self, transaction: Transaction, collection_key: int, path: str, alias: str) -> str:
        """Return the expression of that value for selecting, grouping and ordering."""

    def insert_fields(self, transaction: Transaction, rows: Sequence[FieldRow]) -> None: ...

    def byte_length(self, column: str) -> str:
        """Return the expression of the bytes that a text takes."""


class OutcomeUnknownError(UnavailableError):
    """The database went away during a commit: whether it holds the write is unknown."""

    code = "catalog_unavailable"


class LockedError(UnavailableError):
    """Another writer held the catalogue for longer than a writer waits."""

    code = "catalog_unavailable"


class ChangeCounter(Protocol):
    """A function whose number changes when another connection has committed; a call costs microseconds."""

    def __call__(self) -> int: ...

    @property
    def descriptor(self) -> int | None:
        """What there is something to read from when the number changes; None where nothing tells."""


class Database(Protocol):
    kind: str

    @property
    def servers(self) -> list[tuple[str, int]]:
        """The hosts and ports that answer for the database, none for a file."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The exceptions that the database's driver raises."""

    def translated(self, error: Exception) -> RagError:
        """Return one of `errors` as an error of the service."""

    def read(self, limit: ReadLimit | None = None) -> AbstractContextManager[Transaction]:
        """Open a read transaction on one snapshot; its statements end with the limit, as its `check` says."""

    def write(self, *, durable: bool = True, wait_seconds: float = WAIT_SECONDS) -> AbstractContextManager[Transaction]:
        """Open the only write transaction at a time, within `wait_seconds`.

        It commits at the end and rolls back on an exception.

        A write that is not `durable` is visible to all at once, but reaches the disk only with the next durable commit.
        """

    def migrate(self, step: Callable[[Connection], None]) -> None:
        """Run a schema change in a write transaction."""

    def change_counter(self) -> AbstractContextManager[ChangeCounter]:
        """Open a counter, which belongs to the thread that opened it."""

    def rewrite(self, *, wait_seconds: float) -> str | None:
        """Write all that is stored anew, so that no file holds anything that was deleted before.

        Return None when that is so, else what keeps deleted data there: a read that began before may still need it.
        """

    def close(self) -> None:
        """Close the connections of all threads; no thread may be inside a transaction."""


class Committing(Protocol):
    """What background work asks of the catalogue (`wrapper/catalog/catalog.py`)."""

    @property
    def kind(self) -> str:
        """The kind of the database: `sqlite` or `postgresql`."""

    def read(self) -> AbstractContextManager[Transaction]:
        """Open a read transaction on one snapshot."""

    def commit(self, operation: Callable[[Transaction], Any]) -> Any:
        """Run a write and return its result once it is on disk."""

    def commit_quickly(self, operation: Callable[[Transaction], Any]) -> Any:
        """Run a write and return its result without waiting for the disk."""
