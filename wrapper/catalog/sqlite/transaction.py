"""Transactions on SQLite, and how SQLite spells what `wrapper/catalog/contract.py` names."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from sqlalchemy import PoolProxiedConnection

from schemas.storage.read_limits import ReadLimit
from schemas.words.regular_expressions import patterns_of
from wrapper.catalog.changes.held_matches import HeldMatches
from wrapper.catalog.contract import Dialect, FieldRow, Matches, Row, Sql, TextIndex, Transaction, balanced
from wrapper.catalog.words.index import WordIndex

ROWS_AT_ONCE = 100
MATCHES = "rag_matches"
"""The name of the function of regular expressions."""
FEW_PARTS = 32
"""So many parts of texts are looked for one after another sooner than by a function of ours."""


class Deadline:
    """The end of the time that the running statement may take, and the limit of its request's reads.

    Without one, a filter of many conditions over many documents could keep a processor, or all other writers, busy for
    minutes.
    """

    def __init__(self, clock: Callable[[], float], limit_seconds: float) -> None:
        self._clock, self._limit_seconds = clock, limit_seconds
        self._ends_at = float("inf")
        self.limit: ReadLimit | None = None

    def start(self) -> None:
        if self.limit is not None:
            self.limit.check()
        self._ends_at = self._clock() + self._limit_seconds

    def lift(self) -> None:
        self._ends_at = float("inf")

    def is_over(self) -> bool:
        return self._clock() > self._ends_at or (self.limit is not None and self.limit.is_over())


class SQLiteDialect:
    bytes_type = "BLOB"

    def __init__(self) -> None:
        self.text_index: TextIndex = WordIndex()
        self.matches: Matches = HeldMatches()

    def one_of(self, column: str, values: Sequence[int | str]) -> Sql:
        encoded = orjson.dumps(values).decode()
        listed = Sql(f"{column} IN (SELECT value FROM json_each(?))", (encoded,))
        if "\\u0000" not in encoded:
            return listed
        # SQLite's JSON ends a string at a zero character, so `a` would match for `a\0b`.
        cut = [value for value in values if isinstance(value, str) and "\0" in value]
        whole = [value for value in values if not (isinstance(value, str) and "\0" in value)]
        marks = ", ".join("?" * len(cut))
        return Sql(f"({listed.text} OR {column} IN ({marks}))", (orjson.dumps(whole).decode(), *cut))

    def with_ids(self, ids: Sequence[str]) -> Sql:
        return self.one_of("d.id", ids)

    def text_contains_any(self, parts: Sequence[str]) -> Sql:
        patterns, left = patterns_of(parts) if len(parts) > FEW_PARTS else ([], parts)
        conditions = [f"{MATCHES}(?, d.text)"] * len(patterns) + [self.text_contains(part).text for part in left]
        return Sql(balanced(" OR ", conditions), (*patterns, *left))

    def text_contains(self, part: str) -> Sql:
        return Sql("instr(d.text, ?) > 0", (part,))

    def compared(self, alias: str, operator: str, value: bytes) -> Sql:
        return Sql(f"{alias}.value {operator} ?", (value,))

    def among(self, alias: str, values: Sequence[bytes]) -> Sql:
        marks = ", ".join("?" * len(values))
        return Sql(f"{alias}.value IN ({marks})", tuple(values))

    def whole_value(self, transaction: Transaction, collection_key: int, path: str, alias: str) -> str:
        return f"{alias}.value"

    def insert_fields(self, transaction: Transaction, rows: Sequence[FieldRow]) -> None:
        transaction.insert("document_fields", "position, path, value, collection_key", rows)

    def byte_length(self, column: str) -> str:
        return f"length(CAST({column} AS BLOB))"


class SQLiteTransaction(Transaction):
    def __init__(self, connection: PoolProxiedConnection, dialect: Dialect, deadline: Deadline) -> None:
        self.dialect = dialect
        self._connection = connection
        self._cursor: Any = connection.cursor()
        self.deadline = deadline

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        self.deadline.start()
        found: list[Row] = self._cursor.execute(sql, parameters).fetchall()
        return found

    def row(self, sql: str, parameters: Sequence[Any] = ()) -> Row | None:
        self.deadline.start()
        found: Row | None = self._cursor.execute(sql, parameters).fetchone()
        return found

    def value(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        self.deadline.start()
        return self._cursor.execute(sql, parameters).fetchone()[0]

    def numbers(self, sql: str, parameters: Sequence[Any] = ()) -> NDArray[np.int64]:
        # One text of all of them takes a third of the time of a row for each.
        joined = self.value(f"SELECT group_concat(position) FROM ({sql})", parameters)
        return np.fromstring(joined or "", dtype=np.int64, sep=",")

    def blocks(self, sql: str, parameters: Sequence[Any], rows_at_once: int) -> Generator[list[Row]]:
        self.deadline.lift()
        cursor: Any = self._connection.cursor()
        try:
            cursor.execute(sql, parameters)
            while rows := cursor.fetchmany(rows_at_once):
                yield rows
                if self.deadline.limit is not None:
                    self.deadline.limit.check()
        finally:
            cursor.close()

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self.deadline.lift()
        self._cursor.execute(sql, parameters)

    def text_matches(self, collection_key: int, pattern: str) -> Sql:
        return Sql(f"{MATCHES}(?, d.text)", (pattern,))

    def roll_back(self) -> None:
        self.deadline.lift()
        self._connection.rollback()

    def close(self) -> None:
        """Close the connection, which nobody may be using."""
        self._connection.close()

    def run_many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> None:
        if parameters:
            self.deadline.lift()
            self._cursor.executemany(sql, parameters)

    def insert(self, table: str, columns: str, rows: Sequence[Row]) -> None:
        # Python's interpreter lock is given away with each statement, so several rows go into one.
        marks = f"({', '.join('?' * (columns.count(',') + 1))})"
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[start : start + ROWS_AT_ONCE]
            values = ", ".join([marks] * len(some))
            self.run(f"INSERT INTO {table} ({columns}) VALUES {values}", [*chain.from_iterable(some)])
