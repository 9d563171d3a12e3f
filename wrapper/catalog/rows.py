"""Conversion between rows and records: the one place that knows how SQL spells a document and a collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import orjson

from schemas.errors import CollectionNotFoundError
from schemas.names import AFTER_NAMES, FIRST_NAME, is_pattern
from schemas.records import NO_EXTRAS, Collection, Document, Extras, Vector
from schemas.shared_database import of_fields
from wrapper.catalog.contract import Row, Sql, Transaction, balanced

COLLECTION = (
    "key, id, name, metadata, metric, dimension, revision, count, engine_id, index_state, engine_name, configuration, "
    "engine_records"
)
MOST = 2**31
IS_SHOWN = "NOT (name >= '/.' AND name < '//')"
"""The condition that a collection is not one that stands beside another (`wrapper/catalog/names/beside.py`)."""
STANDS_FOR = "SELECT collection_key FROM aliases WHERE"
DOCUMENT = "d.position, d.id, d.text, d.metadata, d.extras"
DOCUMENT_AND_VECTOR = f"{DOCUMENT}, e.vector"
Patterns = Sequence[str] | None
"""Names of collections, and beginnings of names with `*` after them; None stands for all names."""
DOCUMENTS_WITH_VECTORS = "documents d JOIN embeddings e ON e.position = d.position"


def find_collection(transaction: Transaction, name: str) -> Collection:
    """Return the collection of that name or alias. Raises CollectionNotFoundError when there is none."""
    collection = named(transaction, name)
    if collection is None:
        raise CollectionNotFoundError(name)
    return collection


def named(transaction: Transaction, name: str) -> Collection | None:
    """Return the collection of that name or alias, or None when there is none."""
    row = transaction.row(f"SELECT {COLLECTION} FROM collections WHERE name = ?", (name,))
    if row is None:
        row = transaction.row(f"SELECT {COLLECTION} FROM collections WHERE key = ({STANDS_FOR} alias = ?)", (name,))
    return None if row is None else to_collection(row)


def collections_named(transaction: Transaction, names: Sequence[str]) -> list[Collection]:
    """Return the collections of these names and aliases that exist, in no particular order; one that is asked for by an
    alias has that as its name."""
    if not names:
        return []
    one_of = transaction.dialect.one_of("name", names)
    rows = transaction.rows(f"SELECT {COLLECTION} FROM collections WHERE {one_of.text}", one_of.parameters)
    found = [to_collection(row) for row in rows]
    others = sorted(set(names).difference(each.name for each in found))
    if not others:
        return found
    one_of = transaction.dialect.one_of("alias", others)
    rows = transaction.rows(
        f"SELECT alias, {COLLECTION} FROM aliases JOIN collections ON key = collection_key WHERE {one_of.text}",
        one_of.parameters,
    )
    return found + [replace(to_collection(row[1:]), name=row[0]) for row in rows]


def collection_by_key(transaction: Transaction, key: int) -> Collection | None:
    row = transaction.row(f"SELECT {COLLECTION} FROM collections WHERE key = ?", (key,))
    return None if row is None else to_collection(row)


def collection_by_id(transaction: Transaction, collection_id: str) -> Collection | None:
    row = transaction.row(f"SELECT {COLLECTION} FROM collections WHERE id = ?", (collection_id,))
    return None if row is None else to_collection(row)


def collections_in_database(
    transaction: Transaction, beginning: str, within: Patterns = None, *, offset: int = 0, limit: int | None = None
) -> list[Collection]:
    """Return collections whose names begin so, or for an empty beginning those of the default database, that are within
    the patterns, in the order in which they were made."""
    mine = names_condition("name", within)
    rows = transaction.rows(
        f"SELECT {COLLECTION} FROM collections WHERE name >= ? AND name < ? AND {mine.text} ORDER BY key "
        "LIMIT ? OFFSET ?",
        (beginning or FIRST_NAME, beginning + AFTER_NAMES, *mine.parameters, MOST if limit is None else limit, offset),
    )
    return [to_collection(row) for row in rows]


def all_collections(transaction: Transaction) -> list[Collection]:
    """Return all collections, ordered by name."""
    return [to_collection(row) for row in transaction.rows(f"SELECT {COLLECTION} FROM collections ORDER BY name")]


def collections_in(transaction: Transaction, state: str) -> list[Collection]:
    """Return the collections whose index is in that state, ordered by name."""
    rows = transaction.rows(f"SELECT {COLLECTION} FROM collections WHERE index_state = ? ORDER BY name", (state,))
    return [to_collection(row) for row in rows]


def collections_page(
    transaction: Transaction, within: Patterns = None, *, prefix: str = "", after: str = "", limit: int | None = None
) -> list[Collection]:
    """Return at most `limit` collections by name: those within the patterns that begin with `prefix` and come after
    the name `after`."""
    mine = names_condition("name", within)
    rows = transaction.rows(
        f"SELECT {COLLECTION} FROM collections WHERE name >= ? AND name < ? AND name > ? AND {mine.text} ORDER BY name"
        + ("" if limit is None else " LIMIT ?"),
        (prefix or FIRST_NAME, prefix + AFTER_NAMES, after, *mine.parameters, *(() if limit is None else (limit,))),
    )
    return [to_collection(row) for row in rows]


def names_between(transaction: Transaction, first: str, after: str) -> list[str]:
    """Return the names of collections from `first` on that come before `after`, in order."""
    rows = transaction.rows("SELECT name FROM collections WHERE name >= ? AND name < ? ORDER BY name", (first, after))
    return [row[0] for row in rows]


def count_collections(transaction: Transaction, within: Patterns = None, prefix: str = "") -> int:
    """Return the number of collections within the patterns that begin with `prefix`."""
    mine = names_condition("name", within)
    counting = f"SELECT count(*) FROM collections WHERE name >= ? AND name < ? AND {mine.text}"
    return int(transaction.value(counting, (prefix or FIRST_NAME, prefix + AFTER_NAMES, *mine.parameters)))


def names_condition(column: str, patterns: Patterns) -> Sql:
    """Return the condition that the name in a column fits one of the patterns."""
    if patterns is None:
        return Sql("TRUE")
    conditions, parameters = [], []
    for each in patterns:
        if is_pattern(each):
            conditions.append(f"({column} >= ? AND {column} < ?)")
            parameters += [each[:-1], each[:-1] + AFTER_NAMES]
        else:
            conditions.append(f"{column} = ?")
            parameters.append(each)
    return Sql(balanced(" OR ", conditions), tuple(parameters)) if conditions else Sql("FALSE")


def to_collection(row: Row) -> Collection:
    key, identity, name, metadata, *rest = row
    return Collection(key, identity, name, orjson.loads(metadata), *rest)


def to_document(row: Row) -> Document:
    """Make a document from the `DOCUMENT` columns."""
    return Document(row[1], row[2], row[3], row[0], None, to_extras(row[4]))


def to_document_and_vector(row: Row) -> Document:
    """Make a document with its embedding from the `DOCUMENT_AND_VECTOR` columns."""
    return Document(row[1], row[2], row[3], row[0], np.frombuffer(row[5], dtype="<f4"), to_extras(row[4]))


def to_extras(stored: str | None) -> Extras:
    return NO_EXTRAS if stored is None else of_fields(Extras, orjson.loads(stored))


def dump_extras(extras: Extras | None) -> str | None:
    return None if extras is None or extras == NO_EXTRAS else dump_json(asdict(extras))


def to_matrix(blobs: list[bytes], dimension: int) -> Vector:
    """Join stored vectors into one float32 matrix (n, dimension)."""
    return np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), dimension)


def dump_json(value: Any) -> str:
    return orjson.dumps(value).decode()


def draw(transaction: Transaction, counter: str, numbers: int = 1) -> int:
    """Reserve `numbers` values of a counter inside the write transaction and return the first."""
    last = transaction.value("UPDATE counters SET value = value + ? WHERE name = ? RETURNING value", (numbers, counter))
    return int(last) - numbers + 1
