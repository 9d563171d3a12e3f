"""Removal of the word tables of earlier releases, which on SQLite had five tables of FTS5 for each collection.

SQLite reads its whole list of tables several times for each table that it drops, which takes four times as long for
twice as many collections. So all of them are taken off the list, and put back a few at a time to be dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

log = structlog.get_logger(__name__)

COLLECTIONS_AT_ONCE = 50
_OF_A_COLLECTION = re.compile(r"words_(\d+)(_[a-z]+)?")
_LISTED = "type, name, tbl_name, rootpage, sql"

_Listed = tuple[Any, ...]


def drop_old_tables(connection: Connection) -> None:
    """Drop all word tables of earlier releases, inside the caller's write transaction.

    Drops none where SQLite does not let its list be written to: each table then goes when its collection's words are
    indexed (`wrapper/catalog/words/reindexing.py`).
    """
    collections = _tables(connection)
    if not collections:
        return
    log.info("dropping the word tables of an earlier release", collections=len(collections))
    connection.exec_driver_sql("SAVEPOINT old_words")
    try:
        for some in _put_back_by_parts(connection, collections):
            for key in some:
                connection.exec_driver_sql(f"DROP TABLE words_{int(key)}")
    except DBAPIError as error:
        log.warning("the word tables of an earlier release go one by one", reason=str(error.orig))
        connection.exec_driver_sql("ROLLBACK TO old_words")
    # The connection reads its tables from the list again, whatever has happened.
    connection.exec_driver_sql("PRAGMA writable_schema = RESET")
    connection.exec_driver_sql("RELEASE old_words")


def _tables(connection: Connection) -> dict[str, list[_Listed]]:
    """Return the rows of SQLite's list that belong to each collection's words, by the collection's key."""
    found: dict[str, list[_Listed]] = {}
    for row in connection.exec_driver_sql(f"SELECT {_LISTED} FROM sqlite_master").fetchall():
        if match := _OF_A_COLLECTION.fullmatch(row[2]):
            found.setdefault(match[1], []).append(tuple(row))
    return found


def _put_back_by_parts(connection: Connection, collections: dict[str, list[_Listed]]) -> Iterator[Sequence[str]]:
    """Take all tables off the list, then put those of a few collections back at a time, and yield the keys of those."""
    connection.exec_driver_sql("PRAGMA writable_schema = ON")
    names = orjson.dumps([row[1] for rows in collections.values() for row in rows]).decode()
    connection.exec_driver_sql("DELETE FROM sqlite_master WHERE name IN (SELECT value FROM json_each(?))", (names,))
    keys = list(collections)
    for start in range(0, len(keys), COLLECTIONS_AT_ONCE):
        some = keys[start : start + COLLECTIONS_AT_ONCE]
        connection.exec_driver_sql("PRAGMA writable_schema = ON")
        put_back = [row for key in some for row in collections[key]]
        connection.exec_driver_sql(f"INSERT INTO sqlite_master ({_LISTED}) VALUES (?, ?, ?, ?, ?)", put_back)
        connection.exec_driver_sql("PRAGMA writable_schema = RESET")
        yield some
