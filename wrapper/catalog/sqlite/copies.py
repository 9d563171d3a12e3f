"""Copies of a catalogue in SQLite: one file, as `VACUUM INTO` writes it.

That reads one snapshot while others write, and what was deleted is not in the copy.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import ClassVar

import structlog

from wrapper.catalog.snapshots import BLOCK_BYTES, Contents, Receiver, Snapshot, contents

log = structlog.get_logger(__name__)

MEMBER = "catalog.sqlite"
WAIT_SECONDS = 30.0
BESIDE = ("", "-wal", "-shm", "-journal")
"""What a file of SQLite and those beside it end in."""


class SQLiteCopies:
    kind = "sqlite"
    needs_scratch = True
    errors: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error,)

    def __init__(self, path: Path) -> None:
        self._path = path

    def size_bytes(self) -> int:
        return sum(file.stat().st_size for file in _with_those_beside(self._path) if file.exists())

    def has_catalogue(self) -> bool:
        return self._path.exists() and self._path.stat().st_size > 0

    def schema_version(self) -> int:
        if not self._path.exists():
            return 0
        return _contents(self._path).schema_version

    @contextmanager
    def snapshot(self, scratch: Path) -> Iterator[Snapshot]:
        try:
            os.close(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with closing(sqlite3.connect(self._path, timeout=WAIT_SECONDS, isolation_level=None)) as connection:
                connection.execute("VACUUM INTO ?", (str(scratch),))
            yield Snapshot(_contents(scratch), iter([(MEMBER, _blocks(scratch))]))
        finally:
            _remove(scratch)

    @contextmanager
    def trial(self, scratch: Path) -> Iterator[Receiver]:
        try:
            yield SQLiteReceiver(scratch)
        finally:
            _remove(scratch)


class SQLiteReceiver:
    """Makes the file `path`, on disk when it is finished."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def takes(self, name: str) -> bool:
        return name == MEMBER

    def take(self, name: str, content: Iterator[bytes]) -> None:
        with open(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())

    def finish(self) -> Contents:
        try:
            self._begin_history()
            return self._checked()
        except sqlite3.DatabaseError as error:
            raise ValueError(str(error)) from error

    def _begin_history(self) -> None:
        if not self._path.exists():
            raise ValueError("it has no catalogue")
        with closing(sqlite3.connect(self._path, timeout=WAIT_SECONDS, isolation_level=None)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'histories'").fetchone():
                connection.execute("UPDATE histories SET id = ?", (str(uuid.uuid4()),))

    def _checked(self) -> Contents:
        with closing(sqlite3.connect(f"{self._path.absolute().as_uri()}?immutable=1", uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            found = [row[0] for row in connection.execute("PRAGMA integrity_check(3)")]
            if found != ["ok"]:
                raise ValueError(f"SQLite says: {'; '.join(found)}")
            if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
                log.warning("rows of the catalogue refer to others that are not there")  # as where it was copied
        return _contents(self._path)


def _contents(path: Path) -> Contents:
    with closing(sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        found = contents(tables, lambda statement: connection.execute(statement).fetchone()[0])
        connection.execute("ROLLBACK")
        return found


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            yield block


def _with_those_beside(path: Path) -> list[Path]:
    return [path.with_name(path.name + end) for end in BESIDE]


def _remove(path: Path) -> None:
    for file in _with_those_beside(path):
        file.unlink(missing_ok=True)
