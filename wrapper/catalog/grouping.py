"""Reads that group documents by a field: gather, facets, distinct values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemas.records import Collection, Document, Facet, GatherSpec, Group
from schemas.where import EVERYTHING, Where
from wrapper.catalog.contract import Sql, Transaction
from wrapper.catalog.filters import positions
from wrapper.catalog.reads import AFTER_SCALARS, LOWEST_SCALAR, sort_keys
from wrapper.catalog.rows import DOCUMENT, to_document
from wrapper.catalog.sortable_values import (
    BOOLEAN,
    ELEMENT_BIT,
    NUMBER,
    STRING,
    as_scalar,
    bounded,
    decode_value,
)

VALUES_AT_ONCE = 1_000

_SCALARS_AND_ELEMENTS = "((f.value >= ? AND f.value < ?) OR (f.value >= ? AND f.value < ?))"
_AS_SCALAR = (
    "CASE WHEN value < ? THEN value "
    "ELSE CAST(CASE substr(value, 1, 1) WHEN ? THEN ? WHEN ? THEN ? ELSE ? END || substr(value, 2) AS {bytes_type}) END"
)
_AS_SCALAR_KINDS = (
    bytes((ELEMENT_BIT,)),
    *(kind for scalar in (BOOLEAN, NUMBER) for kind in (bytes((scalar[0] | ELEMENT_BIT,)), scalar)),
    STRING,
)
_SCALAR_AND_ELEMENT_BOUNDS = (
    LOWEST_SCALAR,
    AFTER_SCALARS,
    bytes((LOWEST_SCALAR[0] | ELEMENT_BIT,)),
    bytes((AFTER_SCALARS[0] | ELEMENT_BIT,)),
)


def gather(
    transaction: Transaction,
    collection: Collection,
    hits: Sequence[Document],
    spec: GatherSpec,
    distances: dict[str, float] | None = None,
) -> list[Group]:
    """Return the whole group of every hit, each group once, in the order of its best hit (`hits` come best first).

    A hit without the field is a group of its own, with key None. One statement reads all groups.
    """
    distances = distances or {}
    places = transaction.dialect.one_of("f.position", [hit.position for hit in hits])
    path = bounded(spec.by)
    value = transaction.dialect.whole_value(transaction, collection.key, path, "f")
    mine = transaction.rows(
        f"SELECT f.position, {value} FROM document_fields f WHERE {places.text} AND f.path = ? "
        "AND f.value >= ? AND f.value < ?",
        (*places.parameters, path, LOWEST_SCALAR, AFTER_SCALARS),
    )
    key_of: dict[int, bytes] = dict(mine)
    members = _members(transaction, collection, sorted(set(key_of.values())), spec)
    grouped: dict[bytes | str, list[Document]] = {}
    for hit in hits:
        grouped.setdefault(key_of.get(hit.position, hit.id), []).append(hit)
    groups: list[Group] = []
    for rank, (key, its_hits) in enumerate(grouped.items(), start=1):
        found, total = members[key] if isinstance(key, bytes) else ([its_hits[0]], 1)
        groups.append(
            Group(
                key=decode_value(key) if isinstance(key, bytes) else None,
                rank=rank,
                documents=found,
                hits=frozenset(hit.id for hit in its_hits),
                total=total,
                best_distance=min((distances[hit.id] for hit in its_hits if hit.id in distances), default=None),
            )
        )
    return groups


def facets(
    transaction: Transaction, collection: Collection, where: Where, fields: Sequence[str], *, limit: int
) -> dict[str, Facet]:
    """Return each field's values among the matches, most frequent first, at most `limit`; lists count by element."""
    if where == EVERYTHING:
        among = Sql("f.collection_key = ?", (collection.key,))
    else:
        matching = positions(transaction, collection.key, where)
        among = Sql(f"f.position IN ({matching.text})", matching.parameters)
    return {field: _facet(transaction, collection, among, field, limit) for field in fields}


def distinct_values(transaction: Transaction, collection: Collection, field: str) -> list[Any]:
    """Return the distinct scalars of a field, including the elements of lists, in typed order."""
    path = bounded(field)
    value = transaction.dialect.whole_value(transaction, collection.key, path, "f")
    blocks = transaction.blocks(
        f"SELECT DISTINCT {value} FROM document_fields f WHERE f.collection_key = ? AND f.path = ? "
        f"AND {_SCALARS_AND_ELEMENTS}",
        (collection.key, path, *_SCALAR_AND_ELEMENT_BOUNDS),
        VALUES_AT_ONCE,
    )
    distinct = {as_scalar(value) for rows in blocks for (value,) in rows}
    return [decode_value(value) for value in sorted(distinct)]


def _members(
    transaction: Transaction, collection: Collection, keys: list[bytes], spec: GatherSpec
) -> dict[bytes, tuple[list[Document], int]]:
    path = bounded(spec.by)
    value = transaction.dialect.whole_value(transaction, collection.key, path, "f")
    wanted = transaction.dialect.among("f", keys)
    joins, terms, _ = sort_keys(transaction, collection.key, spec.order_by, "f.position")
    rows = transaction.rows(
        f"SELECT {DOCUMENT}, g.value, g.total FROM ("
        f"SELECT f.position, {value} AS value, "
        f"row_number() OVER (PARTITION BY {value} ORDER BY {terms} f.position) AS place, "
        f"count(*) OVER (PARTITION BY {value}) AS total FROM document_fields f {joins.text} "
        f"WHERE f.collection_key = ? AND f.path = ? AND {wanted.text}"
        ") g JOIN documents d ON d.position = g.position WHERE g.place <= ? ORDER BY g.value, g.place",
        (*joins.parameters, collection.key, path, *wanted.parameters, spec.limit),
    )
    groups: dict[bytes, tuple[list[Document], int]] = {}
    for row in rows:
        groups.setdefault(row[4], ([], row[5]))[0].append(to_document(row))
    return groups


def _facet(transaction: Transaction, collection: Collection, among: Sql, field: str, limit: int) -> Facet:
    path = bounded(field)
    value = transaction.dialect.whole_value(transaction, collection.key, path, "f")
    counted = (
        f"SELECT {value} AS value, count(*) AS documents FROM document_fields f WHERE {among.text} AND f.path = ? "
        f"AND {_SCALARS_AND_ELEMENTS} GROUP BY {value}"
    )
    # A value that one document holds alone and another in a list is one value.
    as_scalar = _AS_SCALAR.format(bytes_type=transaction.dialect.bytes_type)
    merged = f"SELECT {as_scalar} AS value, CAST(sum(documents) AS BIGINT) AS documents FROM counted GROUP BY 1"
    rows = transaction.rows(
        f"WITH counted AS MATERIALIZED ({counted}), merged AS MATERIALIZED ({merged}) "
        "SELECT value, documents, (SELECT count(*) FROM merged), "
        "(SELECT value FROM merged ORDER BY value LIMIT 1) AS lowest, "
        "(SELECT value FROM merged ORDER BY value DESC LIMIT 1) AS highest "
        "FROM merged ORDER BY documents DESC, value LIMIT ?",
        (*among.parameters, path, *_SCALAR_AND_ELEMENT_BOUNDS, *_AS_SCALAR_KINDS, limit),
    )
    if not rows:
        return Facet(values=[], distinct=0)
    _, _, distinct, lowest, highest = rows[0]
    one_type = lowest[:1] == highest[:1] and lowest[:1] in (NUMBER, STRING)
    return Facet(
        values=[(decode_value(row[0]), row[1]) for row in rows],
        distinct=distinct,
        minimum=decode_value(lowest) if one_type else None,
        maximum=decode_value(highest) if one_type else None,
    )
