"""How statements reach the database: SQL text through the driver's cursor, inside one transaction.

Tables and migrations are SQLAlchemy's. The statements are text because they depend on the shape of a filter: building
and caching expression trees cost 2.7 ms of processor time for reading a section that SQLite itself answers in 0.03 ms
(`docs/performance.md`). Only fixed fragments are ever put together; everything a caller says travels as a parameter.
The text is the same for both databases; what they spell differently is in `wrapper/catalog/dialect.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from wrapper.catalog.dialect import Dialect

Row = tuple[Any, ...]


class Sql(NamedTuple):
    """A piece of SQL and the parameters for its question marks, in order."""

    text: str
    parameters: tuple[Any, ...] = ()


class Transaction(ABC):
    """The transaction of one thread. What is read at once has a deadline; what is read in blocks or written has none.

    Statements have a question mark for each parameter. They raise the driver's errors.
    """

    dialect: Dialect

    @abstractmethod
    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]: ...

    @abstractmethod
    def row(self, sql: str, parameters: Sequence[Any] = ()) -> Row | None: ...

    @abstractmethod
    def value(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """The first column of the first row. The statement must give one."""

    @abstractmethod
    def blocks(self, sql: str, parameters: Sequence[Any], rows_at_once: int) -> Iterator[list[Row]]:
        """All rows, at most `rows_at_once` in memory."""

    @abstractmethod
    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None: ...

    @abstractmethod
    def run_many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> None: ...

    @abstractmethod
    def insert(self, table: str, columns: str, rows: Sequence[Row]) -> None:
        """Add rows; `columns` are their names, with commas between."""

    @abstractmethod
    def roll_back(self) -> None:
        """Undo what the transaction did; no harm when the database has done so already."""
