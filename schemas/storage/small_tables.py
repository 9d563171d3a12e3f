"""Small tables of the catalogue's database: each is declared once, and read and changed in transactions.

NOTES = Table("notes", _note)  # _note(id, text, owner) makes a note of the columns that its parameters name

class Notes(Part):
    def __init__(self, database: Database) -> None:
        super().__init__(database, "notes", STEPS, Place("notes", "removed", self.erase))

    def page(self, *, asker: Asker, limit: int, cursor: str | None) -> tuple[list[Note], str | None]:
        with self._database.read() as transaction:
            return NOTES.page(transaction, owned_by(asker), limit=limit, cursor=cursor)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Generic, TypeVar

import orjson

from schemas.access.owners import Asker
from schemas.sealed_cursors import opened, sealed
from schemas.shared_database import Database, Place, Transaction
from schemas.storage.erasure_count import count_erasure, erasures

T = TypeVar("T")
NUMBER_BYTES = 8
ALL_ROWS = 1 << 62


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the columns of a table, with a question mark for each parameter."""

    sql: str
    parameters: tuple[Any, ...] = ()

    def __and__(self, other: Condition) -> Condition:
        return Condition(f"({self.sql}) AND ({other.sql})", self.parameters + other.parameters)


EVERY_ROW = Condition("1 = 1")


def having(**columns: Any) -> Condition:
    """Return the condition that columns have these values, one of them for a tuple."""
    found = EVERY_ROW
    for name, value in columns.items():
        if isinstance(value, tuple):
            found &= Condition(f"{name} IN ({_marks(value)})", value) if value else Condition("1 = 0")
        else:
            found &= Condition(f"{name} IS NULL") if value is None else Condition(f"{name} = ?", (value,))
    return found


def owned_by(asker: Asker) -> Condition:
    """Return the condition on rows that are their owner's alone: the asker's, and all for those who see all."""
    return EVERY_ROW if asker.sees_all else having(owner=asker.owner)


def seen_by(asker: Asker) -> Condition:
    """Return the condition on rows that their owners may share: what the asker sees."""
    return Condition(*asker.seen())


class Table(Generic[T]):
    """A table, whose rows are what `make`, a dataclass or a function, returns for the columns that its parameters name,
    `without` some.

    Rows come in the `order` of some columns. Columns of `json` are stored as text, what is empty there as it is.
    """

    def __init__(
        self,
        name: str,
        make: Callable[..., T],
        *,
        order: str = "number DESC",
        json: Sequence[str] = (),
        without: Sequence[str] = (),
    ) -> None:
        self.name = name
        self._make = make
        self.columns = tuple(each for each in signature(make).parameters if each not in without)
        self._order = order
        self._json = json

    def rows(self, transaction: Transaction, where: Condition = EVERY_ROW, *, limit: int = ALL_ROWS) -> list[T]:
        return [self.made(row) for row in self._select(transaction, self.columns, where, limit)]

    def first(self, transaction: Transaction, where: Condition) -> T | None:
        return next(iter(self.rows(transaction, where, limit=1)), None)

    def page(
        self, transaction: Transaction, where: Condition, *, limit: int, cursor: str | None = None
    ) -> tuple[list[T], str | None]:
        """Return (rows of a table whose order is `number DESC`, the cursor of the next page). Raises InvalidInputError
        for a cursor of something else."""
        if cursor:
            where &= Condition("number < ?", (int.from_bytes(opened(transaction, self.name, cursor)),))
        rows = self._select(transaction, (*self.columns, "number"), where, limit + 1)
        following = None
        if len(rows) > limit:
            following = sealed(transaction, self.name, int(rows[limit - 1][-1]).to_bytes(NUMBER_BYTES))
        return [self.made(row[:-1]) for row in rows[:limit]], following

    def count(self, transaction: Transaction, where: Condition = EVERY_ROW) -> int:
        row = transaction.row(f"SELECT count(*) FROM {self.name} WHERE {where.sql}", where.parameters)
        return 0 if row is None else int(row[0])

    def next_number(self, transaction: Transaction) -> int:
        """Return the number of a row that comes after all others."""
        row = transaction.row(f"SELECT MAX(number) FROM {self.name}")
        return 0 if row is None or row[0] is None else int(row[0]) + 1

    def insert(self, transaction: Transaction, **values: Any) -> None:
        sql = f"INSERT INTO {self.name} ({', '.join(values)}) VALUES ({_marks(values)})"
        transaction.run(sql, self._stored(values))

    def put(self, transaction: Transaction, key: Mapping[str, Any], **values: Any) -> None:
        """Insert a row in place of the one with this key."""
        self.delete(transaction, having(**key))
        self.insert(transaction, **key, **values)

    def update(self, transaction: Transaction, where: Condition, **values: Any) -> None:
        changes = ", ".join(f"{name} = ?" for name in values)
        sql = f"UPDATE {self.name} SET {changes} WHERE {where.sql}"
        transaction.run(sql, (*self._stored(values), *where.parameters))

    def delete(self, transaction: Transaction, where: Condition = EVERY_ROW) -> None:
        transaction.run(f"DELETE FROM {self.name} WHERE {where.sql}", where.parameters)

    def remove(self, transaction: Transaction, where: Condition = EVERY_ROW) -> int:
        """Delete rows and return their number."""
        number = self.count(transaction, where)
        self.delete(transaction, where)
        return number

    def keep_first(self, transaction: Transaction, most: int, where: Condition = EVERY_ROW, *, key: str = "id") -> None:
        """Delete all rows of a condition but the first `most` in the table's order. `key` is the primary key."""
        for (value,) in self._select(transaction, (key,), where, ALL_ROWS)[most:]:
            self.delete(transaction, having(**{key: value}))

    def _select(
        self, transaction: Transaction, columns: Sequence[str], where: Condition, limit: int
    ) -> list[tuple[Any, ...]]:
        sql = f"SELECT {', '.join(columns)} FROM {self.name} WHERE {where.sql} ORDER BY {self._order} LIMIT ?"
        return transaction.rows(sql, (*where.parameters, limit))

    def made(self, row: Sequence[Any]) -> T:
        """Return what a row with the values of `columns` is."""
        values = dict(zip(self.columns, row, strict=True))
        return self._make(**values | {each: orjson.loads(values[each]) for each in self._json if values[each]})

    def _stored(self, values: dict[str, Any]) -> tuple[Any, ...]:
        texts = {each: orjson.dumps(values[each]).decode() for each in self._json if values.get(each) not in (None, "")}
        return tuple(int(value) if isinstance(value, bool) else value for value in (values | texts).values())


class Part:
    """What keeps tables of its own in the catalogue's database; safe for use by several threads and processes.

    With a `place`, an erasure removes there what it has to. `clock` returns seconds since the epoch.
    """

    def __init__(
        self,
        database: Database,
        name: str,
        steps: Sequence[Sequence[str]],
        place: Place | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._clock = clock
        database.open_part(name, steps, place)

    def erasures(self) -> int:
        """Return the count of erasures, for something that is about to be made (`schemas.storage.erasure_count`)."""
        with self._database.read() as transaction:
            return erasures(transaction)

    def _rows(self, table: Table[T], where: Condition = EVERY_ROW, *, limit: int = ALL_ROWS) -> list[T]:
        """Return rows that are read by themselves."""
        with self._database.read() as transaction:
            return table.rows(transaction, where, limit=limit)

    def _first(self, table: Table[T], where: Condition) -> T | None:
        return next(iter(self._rows(table, where, limit=1)), None)

    def _erase(self, operation: Callable[[Transaction], T]) -> T:
        """Remove what is erased, so that nothing of it is stored any more that began before."""

        def counted(transaction: Transaction) -> T:
            count_erasure(transaction)
            return operation(transaction)

        return self._database.freely.commit(counted)

    def _now_ms(self) -> int:
        return round(self._clock() * 1e3)


def _marks(values: Mapping[str, Any] | tuple[Any, ...]) -> str:
    return ", ".join("?" * len(values))
