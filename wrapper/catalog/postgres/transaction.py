"""Transactions on PostgreSQL, and how PostgreSQL spells what `wrapper/catalog/contract.py` names.

An index entry of PostgreSQL has room for some 2,700 bytes. The index of fields therefore holds a value's first bytes
(`document_fields.value`) and the table the others (`rest`, empty for all but long strings); the index of ids holds an
id's first characters. Order and equality of the two parts are those of the whole, so a condition on a short value needs
the first part alone.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import count
from typing import Any

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.pq import TransactionStatus

from schemas.storage.read_limits import ReadLimit
from schemas.words.regular_expressions import matches
from schemas.words.required_parts import required_parts
from wrapper.catalog.changes.held_matches import HeldMatches
from wrapper.catalog.contract import FieldRow, Matches, Row, Sql, TextIndex, Transaction, balanced
from wrapper.catalog.postgres.text import begins_within, escape, told_apart
from wrapper.catalog.tables import ID_CHARACTERS
from wrapper.catalog.texts.signatures import documents_with
from wrapper.catalog.words.index import WordIndex

VALUE_BYTES = 512
CACHED_CHARACTERS = 4_000
TEXTS_AT_ONCE = 500
CANCEL_SECONDS = 5.0
"""How long asking the server to cancel a statement may take."""


class PostgresDialect:
    bytes_type = "BYTEA"

    def __init__(self, value_bytes: int = VALUE_BYTES) -> None:
        self._value_bytes = value_bytes
        self.text_index: TextIndex = WordIndex()
        self.matches: Matches = HeldMatches()

    def one_of(self, column: str, values: Sequence[int | str]) -> Sql:
        kind = "text" if values and isinstance(values[0], str) else "bigint"
        return Sql(f"{column} = ANY(?::{kind}[])", (list(values),))

    def with_ids(self, ids: Sequence[str]) -> Sql:
        given = list(ids)
        if all(len(escape(text)) < ID_CHARACTERS for text in given):
            return Sql(f"left(d.id, {ID_CHARACTERS}) = ANY(?::text[])", (given,))
        heads = f"ARRAY(SELECT left(given.id, {ID_CHARACTERS}) FROM unnest(?::text[]) AS given (id))"
        return Sql(f"left(d.id, {ID_CHARACTERS}) = ANY({heads}) AND d.id = ANY(?::text[])", (given, given))

    def text_contains_any(self, parts: Sequence[str]) -> Sql:
        conditions = [self.text_contains(part) for part in parts]
        return Sql(balanced(" OR ", [each.text for each in conditions]), tuple(parts))

    def text_contains(self, part: str) -> Sql:
        if begins_within(part):
            return Sql(f"strpos({told_apart('d.text')}, {told_apart('?')}) > 0", (part,))
        return Sql("strpos(d.text, ?) > 0", (part,))

    def compared(self, alias: str, operator: str, value: bytes) -> Sql:
        if len(value) < self._value_bytes:
            return Sql(f"{alias}.value {operator} ?", (value,))
        return Sql(f"({alias}.value, {alias}.rest) {operator} (?, ?)", self._parts(value))

    def among(self, alias: str, values: Sequence[bytes]) -> Sql:
        short = [value for value in values if len(value) < self._value_bytes]
        long = [self._parts(value) for value in values if len(value) >= self._value_bytes]
        among_short = Sql(f"{alias}.value = ANY(?::bytea[])", (short,))
        if not long:
            return among_short
        among_long = (
            f"({alias}.value, {alias}.rest) IN (SELECT given.value, given.rest "
            "FROM unnest(?::bytea[], ?::bytea[]) AS given (value, rest))"
        )
        heads, rests = [part[0] for part in long], [part[1] for part in long]
        return Sql(f"({among_short.text} OR {among_long})", (short, heads, rests))

    def whole_value(self, transaction: Transaction, collection_key: int, path: str, alias: str) -> str:
        # Reading `rest` means reading the table and not only the index, and most fields have no long value.
        has_long = transaction.row(
            "SELECT 1 FROM document_fields WHERE collection_key = ? AND path = ? AND rest <> '' LIMIT 1",
            (collection_key, path),
        )
        return f"({alias}.value || {alias}.rest)" if has_long else f"{alias}.value"

    def insert_fields(self, transaction: Transaction, rows: Sequence[FieldRow]) -> None:
        transaction.insert(
            "document_fields",
            "position, path, value, rest, collection_key",
            [(position, path, *self._parts(value), key) for position, path, value, key in rows],
        )

    def byte_length(self, column: str) -> str:
        return f"octet_length({column})"

    def _parts(self, value: bytes) -> tuple[bytes, bytes]:
        return value[: self._value_bytes], value[self._value_bytes :]


class WatchedConnection(psycopg.Connection):
    """A connection on which the running statement is cancelled when `limit` is over, as when its client leaves.

    psycopg resumes what waits for the server every 0.1 seconds, and it is looked at then: it takes no thread.
    """

    limit: ReadLimit | None = None

    def wait(self, gen: PQGen[RV], *args: Any, **options: Any) -> RV:
        return super().wait(gen if self.limit is None else self._watched(gen, self.limit), *args, **options)

    def _watched(self, gen: PQGen[RV], limit: ReadLimit) -> PQGen[RV]:
        is_cancelled = False
        try:
            awaited = next(gen)
            while True:
                if not (ready := (yield awaited)) and not is_cancelled and limit.is_over():
                    is_cancelled = True
                    with suppress(psycopg.Error):  # the statement has a timeout, too
                        self.cancel_safe(timeout=CANCEL_SECONDS)
                awaited = gen.send(ready)
        except StopIteration as end:
            result: RV = end.value
            return result


class PostgresTransaction(Transaction):
    """A transaction on a connection in autocommit mode, whose session has a deadline for each statement."""

    _cursor_numbers = count()

    def __init__(self, connection: WatchedConnection, dialect: PostgresDialect, statement_seconds: float) -> None:
        self.dialect = dialect
        self._statement_seconds = statement_seconds
        self.connection = connection
        self._cursor = connection.cursor(binary=True)
        # Several statements can be sent at once only without parameters and without binary results.
        self._plain = connection.cursor()
        self._limited = True
        self._matching: dict[tuple[int, str], list[int]] = {}

    @property
    def is_usable(self) -> bool:
        return not self.connection.closed and self.connection.info.transaction_status == TransactionStatus.IDLE

    def begin(self, statements: str, *, limited: bool, limit: ReadLimit | None = None) -> None:
        """Begin with several statements in one round trip; `limited` is false when they lift the deadline. The rest of
        the transaction ends with `limit`."""
        self.connection.limit = limit
        if limit is not None and limit.seconds_left() < self._statement_seconds:
            statements = f"{statements}; {self._timeout(limited=True)}"
        self._plain.execute(statements.encode(), prepare=False)
        self._limited = limited
        self._matching.clear()

    def commit(self, statements: str = "COMMIT") -> None:
        self.connection.limit = None
        self._plain.execute(statements.encode(), prepare=False)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self._read(sql, parameters).fetchall()

    def row(self, sql: str, parameters: Sequence[Any] = ()) -> Row | None:
        return self._read(sql, parameters).fetchone()

    def value(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        found = self._read(sql, parameters).fetchone()
        assert found is not None
        return found[0]

    def blocks(self, sql: str, parameters: Sequence[Any], rows_at_once: int) -> Generator[list[Row]]:
        self._lift_limit()
        with self.connection.cursor(f"blocks_{next(self._cursor_numbers)}", binary=True) as cursor:
            cursor.execute(_translated(sql), parameters)
            while rows := cursor.fetchmany(rows_at_once):
                yield rows
                if self.connection.limit is not None:
                    self.connection.limit.check()

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self._lift_limit()
        self._matching.clear()  # several writes share a transaction
        self._cursor.execute(_translated(sql), parameters)

    def run_many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> None:
        if parameters:
            self._lift_limit()
            self._matching.clear()
            self._cursor.executemany(_translated(sql), parameters)

    def insert(self, table: str, columns: str, rows: Sequence[Row]) -> None:
        if rows:
            self._lift_limit()
            self._matching.clear()
            with self._cursor.copy(f"COPY {table} ({columns}) FROM STDIN".encode()) as copy:
                for row in rows:
                    copy.write_row(row)

    def text_matches(self, collection_key: int, pattern: str) -> Sql:
        """Its own expressions are others, and not linear: here the texts are read, once for each pattern."""
        found = self._matching.get((collection_key, pattern))
        if found is None:
            candidates = documents_with(collection_key, required_parts(pattern))
            found = self._matching[collection_key, pattern] = [
                position
                for rows in self.blocks(
                    f"SELECT d.position, d.text {candidates.text}", candidates.parameters, TEXTS_AT_ONCE
                )
                for position, text in rows
                if matches(pattern, text)
            ]
        return self.dialect.one_of("d.position", found)

    def roll_back(self) -> None:
        self.connection.limit = None
        try:
            self.connection.rollback()
        except psycopg.Error:
            # The connection is broken; the database ends a transaction from whose client it hears nothing more.
            self.connection.close()

    def _read(self, sql: str, parameters: Sequence[Any]) -> psycopg.Cursor[Row]:
        if self.connection.limit is not None:
            self.connection.limit.check()
        if not self._limited:
            self._plain.execute(self._timeout(limited=True).encode(), prepare=False)
            self._limited = True
        return self._cursor.execute(_translated(sql), parameters)

    def _lift_limit(self) -> None:
        if self._limited:
            self._plain.execute(self._timeout(limited=False).encode(), prepare=False)
            self._limited = False

    def _timeout(self, *, limited: bool) -> str:
        """Return the statement that bounds those that follow: by the limit of reads, and where `limited` by that of one
        statement."""
        seconds = [self._statement_seconds] if limited else []
        if self.connection.limit is not None:
            seconds.append(max(0.001, self.connection.limit.seconds_left()))
        return f"SET LOCAL statement_timeout = {int(min(seconds, default=0) * 1e3)}"


def _translated(sql: str) -> bytes:
    return _spelt(sql) if len(sql) <= CACHED_CHARACTERS else sql.replace("?", "%s").encode()


@lru_cache(maxsize=2_048)
def _spelt(sql: str) -> bytes:
    return sql.replace("?", "%s").encode()
