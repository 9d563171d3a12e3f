"""Reads that group documents by a field: gather, facets, distinct values."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from schemas.bounds import bounded
from schemas.records import Collection, Document, Facet, GatherSpec, Group
from schemas.storage.joined_text import joined_text
from schemas.where import EVERYTHING, Where
from wrapper.catalog.contract import Sql, Transaction
from wrapper.catalog.filters import had_by_nobody, positions, predicate
from wrapper.catalog.reads import AFTER_SCALARS, LOWEST_SCALAR, by_positions, sort_keys
from wrapper.catalog.sortable_values import (
    BOOLEAN,
    ELEMENT_BIT,
    NUMBER,
    STRING,
    as_scalar,
    decode_value,
)

VALUES_AT_ONCE = 1_000
BROAD_SHARE = 1 / 16
"""From this share of the collection on, reading a field's values in order costs less than looking each document up."""

_Key = tuple[bytes, ...]
"""The stored values of the gathered fields, which the members of a group share."""


class _Member(NamedTuple):
    """A document of a group: its position in the collection, its place in the group, and how many the group has."""

    position: int
    place: int
    total: int


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
    *,
    seen: Where = EVERYTHING,
) -> list[Group]:
    """Return the group of every hit, each group once, in the order of its best hit (`hits` come best first).

    A hit without one of the fields is a group of its own, with key None. Groups have the members that match `seen`. One
    statement finds the members of all groups,
    and another reads those that are given.
    """
    distances = distances or {}
    key_of = _keys(transaction, collection, [hit.position for hit in hits], spec.by)
    grouped: dict[_Key | str, list[Document]] = {}
    for hit in hits:
        grouped.setdefault(key_of.get(hit.position, hit.id), []).append(hit)
    members = _members(transaction, collection, hits, set(key_of.values()), spec, seen)
    chosen = {
        key: _chosen(members[key], [hit.position for hit in its_hits], spec)
        for key, its_hits in grouped.items()
        if isinstance(key, tuple)
    }
    known = {hit.position: replace(hit, embedding=None) for hit in hits}
    read = [each.position for group in chosen.values() for each in group if each.position not in known]
    known |= by_positions(transaction, read)
    groups: list[Group] = []
    for rank, (key, its_hits) in enumerate(grouped.items(), start=1):
        shown = chosen[key] if isinstance(key, tuple) else [_Member(its_hits[0].position, 1, 1)]
        documents, places = [known[each.position] for each in shown], tuple(each.place for each in shown)
        groups.append(
            Group(
                key=_spelt(key) if isinstance(key, tuple) else None,
                rank=rank,
                documents=documents,
                places=places,
                hits=frozenset(hit.id for hit in its_hits),
                total=shown[0].total,
                best_distance=min((distances[hit.id] for hit in its_hits if hit.id in distances), default=None),
                text=joined_text([each.text for each in documents], places) if spec.text else None,
            )
        )
    return groups


def unknown_fields(
    transaction: Transaction, collection: Collection, spec: GatherSpec, seen: Where = EVERYTHING
) -> tuple[str, ...]:
    """Return the fields of the rule that no document has of those that match `seen`, if there are any such."""
    names = dict.fromkeys((*spec.by, *(each.field for each in spec.order_by)))
    return had_by_nobody(transaction, collection, list(names), seen)


def facets(
    transaction: Transaction, collection: Collection, where: Where, fields: Sequence[str], *, limit: int
) -> tuple[dict[str, Facet], int]:
    """Return (each field's values among the matches, the number of matches).

    The values are the most frequent, at most `limit` of each field, most frequent first; lists count by element.
    """
    total = transaction.dialect.matches.count(transaction, collection, where)
    among = Sql("f.collection_key = ?", (collection.key,))
    if where != EVERYTHING:
        matching = positions(transaction, collection.key, where)
        if total >= BROAD_SHARE * collection.count:
            # The sign keeps SQLite from looking each document up, as it would whatever their number.
            among = Sql(f"{among.text} AND +f.position IN ({matching.text})", among.parameters + matching.parameters)
        else:
            among = Sql(f"f.position IN ({matching.text})", matching.parameters)
    return {field: _facet(transaction, collection, among, field, limit) for field in fields}, total


def distinct_values(
    transaction: Transaction, collection: Collection, field: str, where: Where = EVERYTHING
) -> list[Any]:
    """Return the distinct scalars of a field among the matches, including the elements of lists, in typed order."""
    path = bounded(field)
    value = transaction.dialect.whole_value(transaction, collection.key, path, "f")
    matching = predicate(transaction, collection.key, where, "f.position")
    blocks = transaction.blocks(
        f"SELECT DISTINCT {value} FROM document_fields f WHERE f.collection_key = ? AND f.path = ? "
        f"AND {_SCALARS_AND_ELEMENTS} AND {matching.text}",
        (collection.key, path, *_SCALAR_AND_ELEMENT_BOUNDS, *matching.parameters),
        VALUES_AT_ONCE,
    )
    distinct = {as_scalar(value) for rows in blocks for (value,) in rows}
    return [decode_value(value) for value in sorted(distinct)]


def values_at(
    transaction: Transaction, collection: Collection, places: Sequence[int], field: str | None
) -> tuple[list[str], list[Any]]:
    """Return (id, value of a field) of the documents at these positions, in the order of positions.

    The value is a scalar, the lowest element of a list, or None where there is neither, or no field is asked for.
    """
    value, parameters = "NULL", tuple[Any, ...]()
    if field is not None:
        path = bounded(field)
        whole = transaction.dialect.whole_value(transaction, collection.key, path, "f")
        value = (
            f"(SELECT {whole} FROM document_fields f WHERE f.position = d.position AND f.path = ? "
            f"AND {_SCALARS_AND_ELEMENTS} ORDER BY f.value LIMIT 1)"
        )
        parameters = (path, *_SCALAR_AND_ELEMENT_BOUNDS)
    ids: list[str] = []
    values: list[Any] = []
    for start in range(0, len(places), VALUES_AT_ONCE):
        asked = transaction.dialect.one_of("d.position", places[start : start + VALUES_AT_ONCE])
        rows = transaction.rows(
            f"SELECT d.id, {value} FROM documents d WHERE {asked.text} ORDER BY d.position",
            (*parameters, *asked.parameters),
        )
        ids += [row[0] for row in rows]
        values += [None if row[1] is None else decode_value(row[1]) for row in rows]
    return ids, values


def _keys(
    transaction: Transaction, collection: Collection, places: Sequence[int], fields: Sequence[str]
) -> dict[int, _Key]:
    """Return the values of the fields by position, for those of the documents that have all of them."""
    found: list[dict[int, bytes]] = []
    for field in fields:
        path = bounded(field)
        value = transaction.dialect.whole_value(transaction, collection.key, path, "f")
        asked = transaction.dialect.one_of("f.position", places)
        rows = transaction.rows(
            f"SELECT f.position, {value} FROM document_fields f WHERE {asked.text} AND f.path = ? "
            "AND f.value >= ? AND f.value < ?",
            (*asked.parameters, path, LOWEST_SCALAR, AFTER_SCALARS),
        )
        found.append(dict(rows))
    return {place: tuple(each[place] for each in found) for place in found[0] if all(place in each for each in found)}


def _members(
    transaction: Transaction,
    collection: Collection,
    hits: Sequence[Document],
    keys: set[_Key],
    spec: GatherSpec,
    seen: Where,
) -> dict[_Key, list[_Member]]:
    """Return the members of each group that may be given, in order: those that match `seen`, within reach of a hit."""
    if not keys:
        return {}
    dialect = transaction.dialect
    columns, sources, conditions = [], [], []
    source_parameters: list[object] = []
    parameters: list[object] = []
    for number, field in enumerate(spec.by):
        path, alias = bounded(field), f"f{number}"
        wanted = dialect.among(alias, sorted({key[number] for key in keys}))
        columns.append(dialect.whole_value(transaction, collection.key, path, alias))
        if number:
            sources.append(f"JOIN document_fields {alias} ON {alias}.position = f0.position AND {alias}.path = ?")
            source_parameters.append(path)
        else:
            conditions.append("f0.collection_key = ? AND f0.path = ?")
            parameters += [collection.key, path]
        conditions.append(wanted.text)
        parameters += wanted.parameters
    if seen != EVERYTHING:
        matching = predicate(transaction, collection.key, seen, "f0.position")
        conditions.append(matching.text)
        parameters += matching.parameters
    is_hit = dialect.one_of("f0.position", [hit.position for hit in hits])
    joins, terms, _ = sort_keys(transaction, collection.key, spec.order_by, "f0.position")
    values = [f"value{number}" for number in range(len(columns))]
    before, after = _reach(spec)
    rows = transaction.rows(
        f"WITH numbered AS (SELECT f0.position AS position, {_columns(columns, values)}, "
        f"row_number() OVER (PARTITION BY {', '.join(columns)} ORDER BY {terms} f0.position) AS place, "
        f"count(*) OVER (PARTITION BY {', '.join(columns)}) AS total, "
        f"CASE WHEN {is_hit.text} THEN 1 ELSE 0 END AS is_hit "
        f"FROM document_fields f0 {' '.join(sources)} {joins.text} WHERE {' AND '.join(conditions)}), "
        f"near AS (SELECT numbered.*, max(CASE WHEN is_hit = 1 THEN place END) OVER (PARTITION BY {', '.join(values)} "
        "ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS hit_before, "
        f"min(CASE WHEN is_hit = 1 THEN place END) OVER (PARTITION BY {', '.join(values)} "
        "ORDER BY place ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS hit_after FROM numbered) "
        f"SELECT position, place, total, {', '.join(values)} FROM near "
        f"WHERE place - hit_before <= ? OR hit_after - place <= ? ORDER BY {', '.join(values)}, place",
        (
            *is_hit.parameters,
            *source_parameters,
            *joins.parameters,
            *parameters,
            after,
            before,
        ),
    )
    members: dict[_Key, list[_Member]] = {}
    for position, place, total, *key in rows:
        members.setdefault(tuple(key), []).append(_Member(position, place, total))
    return members


def _columns(expressions: Sequence[str], names: Sequence[str]) -> str:
    return ", ".join(f"{expression} AS {name}" for expression, name in zip(expressions, names, strict=True))


def _reach(spec: GatherSpec) -> tuple[int, int]:
    """Return how far before and after a hit a document may be that is given."""
    before, after = spec.window or (spec.limit, spec.limit)
    return min(before, spec.limit), min(after, spec.limit)


def _chosen(members: list[_Member], hits: Sequence[int], spec: GatherSpec) -> list[_Member]:
    """Return as many of the members as the rule allows, in order: the hits, the best ones first, and then the nearest
    to one of them.

    `hits` are positions, the best first. Of members equally far from a hit those of the better hit come first.
    """
    if len(members) <= spec.limit:
        return members
    rank_of = {position: rank for rank, position in enumerate(hits)}
    inside = sorted((each for each in members if each.position in rank_of), key=lambda each: rank_of[each.position])
    inside = inside[: spec.limit]
    before, after = _reach(spec)
    by_place = sorted(inside, key=lambda each: each.place)
    places = [each.place for each in by_place]

    def distance(member: _Member) -> tuple[int, int, int]:
        at = bisect_left(places, member.place)
        near = [
            (abs(hit.place - member.place), rank_of[hit.position], member.place)
            for hit in by_place[max(0, at - 1) : at + 1]
            if -before <= member.place - hit.place <= after
        ]
        return min(near)

    room = spec.limit - len(inside)
    others = sorted((each for each in members if each.position not in rank_of), key=distance) if room else []
    return sorted([*inside, *others[:room]], key=lambda each: each.place)


def _spelt(key: _Key) -> Any:
    values = [decode_value(value) for value in key]
    return values[0] if len(values) == 1 else values


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
