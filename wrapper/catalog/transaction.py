"""How statements reach the database: SQL text through the driver's cursor, inside one transaction.

Tables, migrations, connections and transactions are SQLAlchemy's. The statements are text because they depend on
the shape of a filter: building and caching expression trees cost 2.7 ms of processor time for reading a section
that SQLite itself answers in 0.03 ms (`docs/performance.md`). Only fixed fragments are ever put together;
everything a caller says travels as a parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import PoolProxiedConnection

Row = tuple[Any, ...]


class Sql(NamedTuple):
    """A piece of SQL and the parameters for its question marks, in order."""

    text: str
    parameters: tuple[Any, ...] = ()


class Deadline:
    """When the statement under way has had its time. A filter of many conditions over many documents could keep a
    processor, or all other writers, busy for minutes."""

    def __init__(self, clock: Callable[[], float], limit_seconds: float) -> None:
        self._clock, self._limit_seconds = clock, limit_seconds
        self._ends_at = float("inf")

    def start(self) -> None:
        self._ends_at = self._clock() + self._limit_seconds

    def lift(self) -> None:
        self._ends_at = float("inf")

    def is_over(self) -> bool:
        return self._clock() > self._ends_at


class Transaction:
    """The transaction of one thread, on a connection of its own. What is read at once has a `deadline`."""

    def __init__(self, connection: PoolProxiedConnection, deadline: Deadline) -> None:
        self._connection = connection
        self._cursor: Any = connection.cursor()
        self._deadline = deadline

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        self._deadline.start()
        found: list[Row] = self._cursor.execute(sql, parameters).fetchall()
        return found

    def row(self, sql: str, parameters: Sequence[Any] = ()) -> Row | None:
        self._deadline.start()
        found: Row | None = self._cursor.execute(sql, parameters).fetchone()
        return found

    def value(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """The first column of the first row. The statement must give one."""
        self._deadline.start()
        return self._cursor.execute(sql, parameters).fetchone()[0]

    def blocks(self, sql: str, parameters: Sequence[Any], rows_at_once: int) -> Iterator[list[Row]]:
        """All rows, at most `rows_at_once` in memory."""
        self._deadline.lift()
        cursor: Any = self._connection.cursor()
        try:
            cursor.execute(sql, parameters)
            while rows := cursor.fetchmany(rows_at_once):
                yield rows
        finally:
            cursor.close()

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self._deadline.lift()
        self._cursor.execute(sql, parameters)

    def roll_back(self) -> None:
        """Undo what the transaction did; no harm when the database has done so already."""
        self._deadline.lift()
        self._connection.rollback()

    def run_many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> None:
        if parameters:
            self._deadline.lift()
            self._cursor.executemany(sql, parameters)


def one_of(column: str, values: Sequence[int | str]) -> Sql:
    """`column IN values` with a single parameter, however many there are."""
    encoded = orjson.dumps(values).decode()
    listed = Sql(f"{column} IN (SELECT value FROM json_each(?))", (encoded,))
    if "\\u0000" not in encoded:
        return listed
    # SQLite's JSON ends a string at a zero character: `a` would be taken for `a\0b`.
    cut = [value for value in values if isinstance(value, str) and "\0" in value]
    whole = [value for value in values if not (isinstance(value, str) and "\0" in value)]
    marks = ", ".join("?" * len(cut))
    return Sql(f"({listed.text} OR {column} IN ({marks}))", (orjson.dumps(whole).decode(), *cut))
