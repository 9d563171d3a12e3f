"""Reads of documents inside the caller's snapshot: pages, single documents, counts, vectors.

The way a page is read depends on how many documents match, which is counted first: few matches are collected and
sorted; many are met soon enough by walking an index in the requested order. Both ways give the same answer.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.bounds import bounded
from schemas.records import Collection, Document, OrderBy, Page, Vector
from schemas.where import EVERYTHING, Where
from wrapper.catalog.contract import Sql, Transaction
from wrapper.catalog.cursors import Cursor, decode_cursor, encode_cursor
from wrapper.catalog.filters import had_by_nobody, in_order, positions, predicate
from wrapper.catalog.rows import (
    DOCUMENT,
    DOCUMENT_AND_VECTOR,
    DOCUMENTS_WITH_VECTORS,
    MOST,
    to_document,
    to_document_and_vector,
    to_matrix,
)
from wrapper.catalog.sortable_values import BOOLEAN, STRING
from wrapper.distances import vectors_at_once

VECTORS_AT_ONCE = 4_096
DOCUMENTS_AT_ONCE = 200
SORT_AT_MOST = 5_000
POSITIONS_AT_ONCE = 5_000
LOWEST_SCALAR, AFTER_SCALARS = BOOLEAN, bytes((STRING[0] + 1,))


def page(
    transaction: Transaction,
    collection: Collection,
    where: Where,
    *,
    limit: int,
    offset: int = 0,
    order_by: tuple[OrderBy, ...] = (),
    cursor: str | None = None,
    with_embeddings: bool = False,
    seen: Where = EVERYTHING,
) -> Page:
    """Return one page, ordered by the fields and then by insertion.

    Fields order by type; documents without the field come last in both directions. Fields are unknown that no document
    has which matches `seen`.
    """
    after = decode_cursor(transaction, collection, cursor, where, order_by) if cursor is not None else None
    total = transaction.dialect.matches.count(transaction, collection, where)
    wanted = limit + 1
    if total == 0:
        found: list[Cursor] = []
    elif not order_by:
        found = _by_insertion(transaction, collection, where, total, wanted, offset, after)
    elif len(order_by) > 1 or total <= SORT_AT_MOST:
        found = _sorted(transaction, collection, where, wanted, offset, order_by, after)
    else:
        found = _walked(transaction, collection, where, wanted, offset, order_by[0], after)
    shown = found[:limit]
    following = encode_cursor(transaction, collection, shown[-1], where, order_by) if len(found) > limit else None
    rows = by_positions(transaction, [place.position for place in shown], with_embeddings=with_embeddings)
    return Page(
        documents=[rows[place.position] for place in shown],
        total=total,
        next_cursor=following,
        revision=collection.revision,
        unknown_fields=had_by_nobody(transaction, collection, [each.field for each in order_by], seen),
    )


def by_positions(
    transaction: Transaction, wanted: Sequence[int], *, with_embeddings: bool = False
) -> dict[int, Document]:
    """Return the documents at these positions, by position."""
    if not wanted:
        return {}
    found = _fetch(transaction, transaction.dialect.one_of("d.position", wanted), with_embeddings)
    return {document.position: document for document in found}


def by_ids(
    transaction: Transaction,
    collection: Collection,
    ids: Sequence[str],
    *,
    where: Where = EVERYTHING,
    with_embeddings: bool = False,
) -> dict[str, Document]:
    """Return those of the documents that exist and match, by id."""
    wanted = transaction.dialect.with_ids(ids)
    matching = predicate(transaction, collection.key, where, "d.position")
    condition = Sql(
        f"d.collection_key = ? AND {wanted.text} AND {matching.text}",
        (collection.key, *wanted.parameters, *matching.parameters),
    )
    return {document.id: document for document in _fetch(transaction, condition, with_embeddings)}


def in_insertion_order(transaction: Transaction, collection: Collection, *, after: int, limit: int) -> list[Document]:
    """Return the next `limit` documents after a position, with their embeddings, in the order of insertion."""
    condition = Sql(
        "d.collection_key = ? AND d.position > ? ORDER BY d.position LIMIT ?", (collection.key, after, limit)
    )
    return _fetch(transaction, condition, with_embeddings=True)


def everything(
    transaction: Transaction, collection: Collection, where: Where = EVERYTHING, *, block: int = DOCUMENTS_AT_ONCE
) -> Iterator[list[Document]]:
    """Yield all matching documents with embeddings, in the order of insertion, `block` in memory at a time."""
    matching = predicate(transaction, collection.key, where, "d.position")
    statement = (
        f"SELECT {DOCUMENT_AND_VECTOR} FROM documents d CROSS JOIN embeddings e "
        f"WHERE e.position = d.position AND d.collection_key = ? AND {matching.text} ORDER BY d.position"
    )
    for rows in transaction.blocks(statement, (collection.key, *matching.parameters), block):
        yield [to_document_and_vector(row) for row in rows]


def all_in_blocks(
    transaction: Transaction,
    collection: Collection,
    *,
    offset: int = 0,
    limit: int | None = None,
    with_embeddings: bool = False,
    block: int,
) -> Iterator[list[Document]]:
    """Yield all documents of a collection in the order of insertion, `block` in memory at a time."""
    columns, source, make = (
        (DOCUMENT_AND_VECTOR, DOCUMENTS_WITH_VECTORS, to_document_and_vector)
        if with_embeddings
        else (DOCUMENT, "documents d", to_document)
    )
    statement = f"SELECT {columns} FROM {source} WHERE d.collection_key = ? ORDER BY d.position LIMIT ? OFFSET ?"
    for rows in transaction.blocks(statement, (collection.key, MOST if limit is None else limit, offset), block):
        yield [make(row) for row in rows]


def positions_in_order(
    transaction: Transaction, collection: Collection, where: Where, *, offset: int = 0, limit: int | None = None
) -> array[int]:
    """Return the positions of matching documents in the order of insertion, in eight bytes each."""
    matching = positions(transaction, collection.key, where)
    found = array("q")
    for rows in transaction.blocks(
        f"{matching.text} ORDER BY m.position LIMIT ? OFFSET ?",
        (*matching.parameters, MOST if limit is None else limit, offset),
        POSITIONS_AT_ONCE,
    ):
        found.extend(row[0] for row in rows)
    return found


def all_positions(transaction: Transaction, collection: Collection, where: Where = EVERYTHING) -> NDArray[np.int64]:
    """Return the positions (n,) of all matching documents of a collection, in no particular order."""
    matching = positions(transaction, collection.key, where)
    return transaction.numbers(matching.text, matching.parameters)


def neighbours(
    transaction: Transaction,
    collection: Collection,
    where: Where,
    *,
    position: int | None,
    newest_first: bool,
    limit: int,
) -> list[Document]:
    """Return the next `limit` matching documents behind a position, in the order of insertion or against it; None
    begins."""
    # Counting first would take longer than what is asked: few documents, or those of one value.
    matching = (in_order if where == EVERYTHING else positions)(transaction, collection.key, where)
    behind = "" if position is None else f" AND m.position {'<' if newest_first else '>'} ?"
    rows = transaction.rows(
        f"{matching.text}{behind} ORDER BY m.position {'DESC' if newest_first else 'ASC'} LIMIT ?",
        (*matching.parameters, *([] if position is None else [position]), limit),
    )
    found = by_positions(transaction, [row[0] for row in rows])
    return [found[row[0]] for row in rows]


def vectors(
    transaction: Transaction, collection: Collection, where: Where, *, block: int = VECTORS_AT_ONCE
) -> Iterator[tuple[list[int], Vector]]:
    """Yield (positions, float32 matrix) of all matches, at most `block` at a time, and fewer of long vectors."""
    if collection.dimension is None:
        return
    block = min(block, vectors_at_once(collection.dimension))
    matching = positions(transaction, collection.key, where)
    # A cross join runs in the order in which it is written: first the matches, then each vector by its position.
    statement = (
        f"SELECT e.position, e.vector FROM ({matching.text}) p CROSS JOIN embeddings e WHERE e.position = p.position"
    )
    for rows in transaction.blocks(statement, matching.parameters, block):
        yield [row[0] for row in rows], to_matrix([row[1] for row in rows], collection.dimension)


def vectors_of(
    transaction: Transaction, collection: Collection, ids: Sequence[str], *, where: Where = EVERYTHING
) -> tuple[list[int], Vector]:
    """Return (positions, float32 matrix) of those of the documents that exist and match."""
    if not ids:
        return [], to_matrix([], collection.dimension or 0)
    wanted, matching = transaction.dialect.with_ids(ids), predicate(transaction, collection.key, where, "d.position")
    rows = transaction.rows(
        f"SELECT d.position, e.vector FROM {DOCUMENTS_WITH_VECTORS} "
        f"WHERE d.collection_key = ? AND {wanted.text} AND {matching.text}",
        (collection.key, *wanted.parameters, *matching.parameters),
    )
    return [row[0] for row in rows], to_matrix([row[1] for row in rows], collection.dimension or 0)


def vectors_at(transaction: Transaction, collection: Collection, places: Sequence[int]) -> tuple[list[int], Vector]:
    """Return (positions, float32 matrix) of the documents at these positions."""
    wanted = transaction.dialect.one_of("e.position", places)
    rows = transaction.rows(f"SELECT e.position, e.vector FROM embeddings e WHERE {wanted.text}", wanted.parameters)
    return [row[0] for row in rows], to_matrix([row[1] for row in rows], collection.dimension or 0)


def vectors_after(
    transaction: Transaction, collection: Collection, position: int, *, limit: int
) -> tuple[list[int], Vector]:
    """Return (positions, float32 matrix) of the next `limit` documents after a position, in the order of insertion."""
    rows = transaction.rows(
        f"SELECT d.position, e.vector FROM {DOCUMENTS_WITH_VECTORS} "
        "WHERE d.collection_key = ? AND d.position > ? ORDER BY d.position LIMIT ?",
        (collection.key, position, limit),
    )
    return [row[0] for row in rows], to_matrix([row[1] for row in rows], collection.dimension or 0)


def _by_insertion(
    transaction: Transaction,
    collection: Collection,
    where: Where,
    total: int,
    wanted: int,
    offset: int,
    after: Cursor | None,
) -> list[Cursor]:
    # Walking meets a match every count/total documents; collecting sorts `total` matches.
    walked = (offset + wanted) * collection.count // total
    if where == EVERYTHING or walked < total:
        matching = in_order(transaction, collection.key, where)
    else:
        matching = positions(transaction, collection.key, where)
    rows = transaction.rows(
        f"{matching.text} AND m.position > ? ORDER BY m.position LIMIT ? OFFSET ?",
        (*matching.parameters, after.position if after else 0, wanted, offset),
    )
    return [Cursor(row[0]) for row in rows]


def sort_keys(
    transaction: Transaction, collection_key: int, order_by: Sequence[OrderBy], position: str
) -> tuple[Sql, str, list[str]]:
    """Return (joins, ORDER BY terms, names of the keys) that sort documents by fields.

    `position` is the SQL name of the document's position.
    """
    joins, terms, names, parameters = [], [], [], []
    for number, order in enumerate(order_by):
        alias = f"k{number}"
        joins.append(
            f"LEFT JOIN document_fields {alias} ON {alias}.position = {position} AND {alias}.path = ? "
            f"AND {alias}.value >= ? AND {alias}.value < ?"
        )
        path = bounded(order.field)
        parameters += [path, LOWEST_SCALAR, AFTER_SCALARS]
        name = transaction.dialect.whole_value(transaction, collection_key, path, alias)
        terms.append(f"{alias}.value IS NULL, {name}{' DESC' if order.descending else ''}, ")
        names.append(name)
    return Sql(" ".join(joins), tuple(parameters)), "".join(terms), names


def _sorted(
    transaction: Transaction,
    collection: Collection,
    where: Where,
    wanted: int,
    offset: int,
    order_by: tuple[OrderBy, ...],
    after: Cursor | None,
) -> list[Cursor]:
    matching = positions(transaction, collection.key, where)
    joins, terms, names = sort_keys(transaction, collection.key, order_by, "p.position")
    past = _past(names, "p.position", order_by, after)
    rows = transaction.rows(
        f"SELECT p.position, {', '.join(names)} FROM ({matching.text}) p {joins.text} WHERE {past.text} "
        f"ORDER BY {terms} p.position LIMIT ? OFFSET ?",
        (*matching.parameters, *joins.parameters, *past.parameters, wanted, offset),
    )
    return [Cursor(row[0], row[1:]) for row in rows]


def _walked(
    transaction: Transaction,
    collection: Collection,
    where: Where,
    wanted: int,
    offset: int,
    order: OrderBy,
    after: Cursor | None,
) -> list[Cursor]:
    """Walk along the index of the field's values, then along the documents that lack the field."""
    found: list[Cursor] = []
    to_skip = offset
    path = bounded(order.field)
    value = transaction.dialect.whole_value(transaction, collection.key, path, "m")
    if after is None or after.keys[0] is not None:
        matching = predicate(transaction, collection.key, where, "m.position")
        past = _past([value], "m.position", (order,), after)
        with_field = Sql(
            "FROM document_fields m WHERE m.collection_key = ? AND m.path = ? AND m.value >= ? AND m.value < ? "
            f"AND {matching.text} AND {past.text}",
            (collection.key, path, LOWEST_SCALAR, AFTER_SCALARS, *matching.parameters, *past.parameters),
        )
        direction = "DESC" if order.descending else "ASC"
        rows = transaction.rows(
            f"SELECT m.position, {value} {with_field.text} ORDER BY {value} {direction}, m.position LIMIT ? OFFSET ?",
            (*with_field.parameters, wanted, offset),
        )
        found = [Cursor(row[0], (row[1],)) for row in rows]
        if len(found) == wanted:
            return found
        passed = transaction.value(f"SELECT count(*) {with_field.text}", with_field.parameters) if offset else 0
        to_skip = max(0, offset - passed)
    missing = in_order(transaction, collection.key, where)
    rows = transaction.rows(
        f"{missing.text} AND m.position > ? AND NOT EXISTS (SELECT 1 FROM document_fields k WHERE "
        "k.position = m.position AND k.path = ? AND k.value >= ? AND k.value < ?) "
        "ORDER BY m.position LIMIT ? OFFSET ?",
        (
            *missing.parameters,
            after.position if after is not None and after.keys[0] is None else 0,
            path,
            LOWEST_SCALAR,
            AFTER_SCALARS,
            wanted - len(found),
            to_skip,
        ),
    )
    return found + [Cursor(row[0], (None,)) for row in rows]


def _past(names: Sequence[str], position: str, order_by: tuple[OrderBy, ...], after: Cursor | None) -> Sql:
    """Return the condition for rows after the cursor in (keys, position) order, where a missing key comes last."""
    if after is None:
        return Sql("TRUE")
    branches: list[str] = []
    parameters: list[object] = []
    equal = ""
    equal_parameters: list[object] = []
    for name, order, last in zip(names, order_by, after.keys, strict=True):
        if last is not None:
            beyond = "<" if order.descending else ">"
            branches.append(f"({equal}({name} {beyond} ? OR {name} IS NULL))")
            parameters += [*equal_parameters, last]
            equal_parameters.append(last)
        equal += f"{name} IS NULL AND " if last is None else f"{name} = ? AND "
    branches.append(f"({equal}{position} > ?)")
    parameters += [*equal_parameters, after.position]
    return Sql(f"({' OR '.join(branches)})", tuple(parameters))


def _fetch(transaction: Transaction, condition: Sql, with_embeddings: bool) -> list[Document]:
    columns, source = (DOCUMENT_AND_VECTOR, DOCUMENTS_WITH_VECTORS) if with_embeddings else (DOCUMENT, "documents d")
    rows = transaction.rows(f"SELECT {columns} FROM {source} WHERE {condition.text}", condition.parameters)
    return [to_document_and_vector(row) if with_embeddings else to_document(row) for row in rows]
