"""What the storage proxy means, in plain Python: the answers every plan and every statement are compared with.

Written from the description of the wire alone. It imports nothing of the product, keeps whole collections in lists
and looks at every document for every question.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

ABSENT = object()
KINDS = {"boolean": 0, "number": 1, "string": 2}

Json = dict[str, Any]


def kind(value: Any) -> str | None:
    """The kind of a scalar; None for null, objects and lists."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else None


def same(left: Any, right: Any) -> bool:
    """Equality of scalars: kinds are distinct, 1 equals 1.0, integers and floats compare exactly."""
    return kind(left) is not None and kind(left) == kind(right) and left == right


def field_value(metadata: Json, path: str) -> Any:
    """What a field path reaches, `ABSENT` when nothing. A key that is the path wins; of two keys that begin a path,
    the longer."""
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
    """Whether a document with this metadata matches a well-formed filter."""
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
    """Typed order of scalars: booleans, numbers, strings by code point."""
    found = kind(value)
    assert found is not None
    return KINDS[found], value


def distances(query: np.ndarray, vectors: np.ndarray, metric: str) -> np.ndarray:
    """float64 distances, as `distance` is described for the three metrics."""
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
        """By the fields (`-field` downwards), documents without a scalar there last, then by insertion."""
        found = self.matching(where)
        for name in reversed(order_by):
            path, descending = name.removeprefix("-"), name.startswith("-")

            def value_of(document: ModelDocument, path: str = path) -> Any:
                return field_value(document.metadata, path)

            having = [each for each in found if kind(value_of(each)) is not None]
            missing = [each for each in found if kind(value_of(each)) is None]
            # sorted() is stable in both directions, so equal values keep the order they had.
            found = sorted(having, key=lambda each: sort_key(value_of(each)), reverse=descending) + missing
        return found

    def nearest(self, query: np.ndarray, top_k: int, where: Json) -> list[tuple[str, float]]:
        """(id, distance), equal distances in the order of insertion."""
        found = self.matching(where)
        if not found:
            return []
        measured = distances(query, np.stack([each.embedding for each in found]), self.metric)
        ranked = sorted(range(len(found)), key=lambda place: (measured[place], place))[:top_k]
        return [(found[place].id, float(measured[place])) for place in ranked]

    def values(self, path: str, where: Json | None = None) -> Counter[tuple[int, Any]]:
        """How many matching documents hold each scalar in the field, list elements included, by `sort_key`."""
        counted: Counter[tuple[int, Any]] = Counter()
        for each in self.matching(where or {}):
            value = field_value(each.metadata, path)
            held = value if isinstance(value, list) else [value]
            counted.update({sort_key(item) for item in held if kind(item) is not None})
        return counted

    def groups(self, hits: Iterable[str], by: str, order_by: Sequence[str], limit: int) -> list[tuple[Any, list[str]]]:
        """(key, ids of the group) in the order of the hits, each group once; the ids of a whole group are cut."""
        groups: dict[Any, tuple[Any, list[str]]] = {}
        for document_id in hits:
            hit = self.by_id(document_id)
            assert hit is not None
            value = field_value(hit.metadata, by)
            if kind(value) is None:
                groups[("alone", document_id)] = (None, [document_id])
                continue
            members = [each.id for each in self.ordered({by: {"$eq": value}}, order_by)]
            groups.setdefault(sort_key(value), (value, members[:limit]))
        return list(groups.values())

    def remove(self, condition: Callable[[ModelDocument], bool]) -> int:
        kept = [each for each in self.documents if not condition(each)]
        removed = len(self.documents) - len(kept)
        self.documents = kept
        return removed

    def put(self, document: ModelDocument) -> str:
        """`created`, `updated` or `unchanged`; a document that exists keeps its place."""
        before = self.by_id(document.id)
        if before is None:
            self.documents.append(document)
            return "created"
        if is_unchanged(before, document):
            return "unchanged"
        before.text, before.metadata, before.embedding = document.text, document.metadata, document.embedding
        return "updated"


def is_unchanged(before: ModelDocument, after: ModelDocument) -> bool:
    return (
        before.text == after.text
        and json.dumps(before.metadata, sort_keys=True) == json.dumps(after.metadata, sort_keys=True)
        and before.embedding.tobytes() == after.embedding.tobytes()
    )


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396, word for word."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result
