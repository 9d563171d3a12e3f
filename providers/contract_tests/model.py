"""A plain model of a collection, with whose answers those of every provider and of the storage proxy are compared.

Written from the description of the wire alone. It imports nothing else of the product, keeps whole collections in lists
and looks at every document for every question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

ABSENT = object()
KINDS = {"boolean": 0, "number": 1, "string": 2}

Json = dict[str, Any]


def kind(value: Any) -> str | None:
    """Return the kind of a scalar; None for null, objects and lists."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else None


def same(left: Any, right: Any) -> bool:
    """Return whether two scalars are equal: kinds are distinct, 1 equals 1.0, integers and floats compare exactly."""
    return kind(left) is not None and kind(left) == kind(right) and left == right


def field_value(metadata: Json, path: str) -> Any:
    """Return the value at a field path, `ABSENT` when there is none.

    A key equal to the whole path wins; of two keys that begin a path, the longer one does.
    """
    if path in metadata:
        return metadata[path]
    dots = [place for place, character in enumerate(path) if character == "."]
    for place in reversed(dots):
        inner = metadata.get(path[:place])
        if isinstance(inner, dict):
            found = field_value(inner, path[place + 1 :])
            if found is not ABSENT:
                return found
    return ABSENT


def matches(where: Json, metadata: Json) -> bool:
    """Return whether a document with this metadata matches a well-formed filter."""
    return all(_clause(key, operand, metadata) for key, operand in where.items())


def _clause(key: str, operand: Any, metadata: Json) -> bool:
    if key == "$and":
        return all(matches(part, metadata) for part in operand)
    if key == "$or":
        return any(matches(part, metadata) for part in operand)
    if key == "$not":
        return not matches(operand, metadata)
    value = field_value(metadata, key)
    if isinstance(operand, dict):
        return all(_holds(name, argument, value) for name, argument in operand.items())
    return same(value, operand)


def _holds(operator: str, operand: Any, value: Any) -> bool:
    elements = value if isinstance(value, list) else []
    comparable = kind(value) is not None and kind(value) == kind(operand)
    match operator:
        case "$eq":
            return same(value, operand)
        case "$ne":
            return not same(value, operand)
        case "$gt":
            return comparable and value > operand
        case "$gte":
            return comparable and value >= operand
        case "$lt":
            return comparable and value < operand
        case "$lte":
            return comparable and value <= operand
        case "$in":
            return any(same(value, wanted) for wanted in operand)
        case "$nin":
            return not any(same(value, wanted) for wanted in operand)
        case "$contains":
            return any(same(element, operand) for element in elements)
        case "$not_contains":
            return not any(same(element, operand) for element in elements)
        case "$exists":
            return (value is not ABSENT) == operand
        case "$not":
            return not all(_holds(name, argument, value) for name, argument in operand.items())
    raise AssertionError(operator)


def sort_key(value: Any) -> tuple[int, Any]:
    """Return the sort key for the order of scalars: booleans, numbers, strings by code point."""
    found = kind(value)
    assert found is not None
    return KINDS[found], value


def distances(query: np.ndarray, vectors: np.ndarray, metric: str) -> np.ndarray:
    """Return float64 distances, as `distance` is described for the three metrics."""
    query, vectors = query.astype(np.float64), vectors.astype(np.float64)
    if metric == "l2":
        return ((vectors - query) ** 2).sum(axis=1)
    products = (vectors * query).sum(axis=1)
    if metric == "ip":
        return 1.0 - products
    norms = np.sqrt((vectors**2).sum(axis=1)) * np.sqrt((query**2).sum())
    return 1.0 - np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)


@dataclass
class ModelDocument:
    id: str
    text: str
    metadata: Json
    embedding: np.ndarray


@dataclass
class ModelCollection:
    """Documents in the order of their first insertion."""

    metadata: Json = field(default_factory=dict)
    metric: str = "cosine"
    dimension: int | None = None
    documents: list[ModelDocument] = field(default_factory=list)

    def by_id(self, document_id: str) -> ModelDocument | None:
        return next((each for each in self.documents if each.id == document_id), None)

    def matching(self, where: Json) -> list[ModelDocument]:
        return [each for each in self.documents if matches(where, each.metadata)]

    def ordered(self, where: Json, order_by: Sequence[str] = ()) -> list[ModelDocument]:
        """Sort by the fields (`-field` descending), documents without a scalar there last, then by insertion."""
        found = self.matching(where)
        for name in reversed(order_by):
            path, descending = name.removeprefix("-"), name.startswith("-")

            def value_of(document: ModelDocument, path: str = path) -> Any:
                return field_value(document.metadata, path)

            having = [each for each in found if kind(value_of(each)) is not None]
            missing = [each for each in found if kind(value_of(each)) is None]
            # sorted() is stable in both directions, so equal values keep their order.
            found = sorted(having, key=lambda each: sort_key(value_of(each)), reverse=descending) + missing
        return found

    def nearest(self, query: np.ndarray, top_k: int, where: Json) -> list[tuple[str, float]]:
        """Return (id, distance), equal distances in order of insertion."""
        found = self.matching(where)
        if not found:
            return []
        measured = distances(query, np.stack([each.embedding for each in found]), self.metric)
        ranked = sorted(range(len(found)), key=lambda place: (measured[place], place))[:top_k]
        return [(found[place].id, float(measured[place])) for place in ranked]

    def groups(
        self,
        hits: Iterable[str],
        by: Sequence[str],
        order_by: Sequence[str],
        limit: int,
        window: tuple[int, int] | None = None,
    ) -> list[tuple[Any, list[str]]]:
        """Return (key, ids of the group) in the order of the hits, each group once.

        Of more than `limit` members the hits come first, then the nearest to one of them, those of better hits before
        others. With a `window`, members farther before or after a hit than it says are left out.
        """
        keys: dict[Any, tuple[Any, list[str]]] = {}
        for document_id in hits:
            hit = self.by_id(document_id)
            assert hit is not None
            values = [field_value(hit.metadata, field) for field in by]
            if any(kind(value) is None for value in values):
                keys[("alone", document_id)] = (None, [document_id])
                continue
            key = tuple(sort_key(value) for value in values)
            keys.setdefault(key, (values[0] if len(by) == 1 else values, []))[1].append(document_id)
        return [
            (value, its_hits if key[0] == "alone" else self._members(its_hits, by, order_by, limit, window))
            for key, (value, its_hits) in keys.items()
        ]

    def _members(
        self, hits: list[str], by: Sequence[str], order_by: Sequence[str], limit: int, window: tuple[int, int] | None
    ) -> list[str]:
        first = self.by_id(hits[0])
        assert first is not None
        same = {"$and": [{field: {"$eq": field_value(first.metadata, field)}} for field in by]}
        order = [each.id for each in self.ordered(same, order_by)]
        before, after = window or (len(order), len(order))
        # How soon each member is wanted: the hits as they come, then by distance from the hit that it is nearest to.
        wanted: dict[str, tuple[int, ...]] = {}
        for place, member in enumerate(order):
            if member in hits:
                wanted[member] = (0, hits.index(member))
                continue
            near = [
                (abs(order.index(hit) - place), hits.index(hit))
                for hit in hits
                if -before <= place - order.index(hit) <= after
            ]
            if near:
                wanted[member] = (1, *min(near), place)
        chosen = sorted(wanted, key=lambda member: wanted[member])[:limit]
        return [member for member in order if member in chosen]
