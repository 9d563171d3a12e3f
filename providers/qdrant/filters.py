"""Translates the `where` grammar into Qdrant's JSON: exactly, or not at all.

A condition of Qdrant's on a list holds for any of its elements, so each condition also says whether the field is a
list: a path that ends in `[]` is empty for everything else. Numbers are compared as ranges, because a match of Qdrant's
tells 1 from 1.0. A field `a.b` may be one name or a name within another: every reading is tried, in order of
precedence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from providers.unsupported_filters import UnsupportedFilterError, check_number
from schemas.where import (
    EVERYTHING,
    ID,
    TEXT,
    And,
    Contains,
    Equals,
    Exists,
    HasId,
    In,
    Not,
    Or,
    Ordered,
    Scalar,
    TextContains,
    TextMatches,
    Where,
)

Condition = dict[str, Any]

QDRANT = "Qdrant"
MAX_DOTS = 3
NOTHING: Condition = {"has_id": []}
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


def _is_empty(key: str) -> Condition:
    """Return the condition that a field is missing, null or an empty list."""
    return {"is_empty": {"key": key}}


NOT_OURS: Condition = {"should": [_is_empty("id"), _is_empty("document"), _is_empty("metadata")]}
"""The condition for points of another layout than that of `providers/qdrant/records.py`."""
OURS: Condition = {"must_not": [NOT_OURS]}


def to_qdrant(where: Where) -> Condition | None:
    """Return a filter for Qdrant, None when everything matches.

    The filter covers both layouts of points: ours, whose metadata is an object of its own, and the others', whose
    payload is the metadata. Raises UnsupportedFilterError when Qdrant cannot answer it exactly.
    """
    if where == EVERYTHING:
        return None
    ours, others = _condition(where, "metadata."), _condition(where, "")
    return {"should": [{"must": [OURS, ours]}, {"must": [NOT_OURS, others]}]}


def _condition(where: Where, prefix: str) -> Condition:
    match where:
        case And(parts):
            return {"must": [_condition(part, prefix) for part in parts]}
        case Or(parts):
            return {"should": [_condition(part, prefix) for part in parts]}
        case Not(part):
            return {"must_not": [_condition(part, prefix)]}
        case Equals(path, value):
            return _at("$eq", path, prefix, lambda key: _scalar(key, _matches("$eq", path, key, value)))
        case In(path, values):
            return _at("$in", path, prefix, lambda key: _scalar(key, _one_of(path, key, values)))
        case Contains(path, value):
            return _at("$contains", path, prefix, lambda key: _listed(key, _matches("$contains", path, key, value)))
        case Ordered(path, operator, value):
            return _at(operator, path, prefix, lambda key: _scalar(key, _ordered(operator, path, key, value)))
        case Exists(path):
            return _at("$exists", path, prefix, lambda key: {"must_not": [_absent(key)]})
        case TextContains() | TextMatches():
            raise UnsupportedFilterError(QDRANT, "$text", TEXT, "the text is not asked for in filters")
        case HasId():
            raise UnsupportedFilterError(QDRANT, "$in", ID, "its points have ids of their own")


def _at(operator: str, path: str, prefix: str, make: Callable[[str], Condition]) -> Condition:
    """Return the condition at the first reading of a path that a document has."""
    if path.count(".") > MAX_DOTS:
        raise UnsupportedFilterError(QDRANT, operator, path, f"at most {MAX_DOTS} dots can be read in every way")
    keys = [prefix + ".".join(_quoted(operator, path, name) for name in names) for names in _readings(path)]
    alternatives = [
        {"must": [make(key), *(_absent(earlier) for earlier in keys[:number])]} for number, key in enumerate(keys)
    ]
    return {"should": alternatives}


def _readings(path: str) -> Iterator[list[str]]:
    """Yield the readings of a path in order of precedence: the path as one key first, then a longer first key before a
    shorter."""
    yield [path]
    for place in reversed([place for place, character in enumerate(path) if character == "."]):
        for rest in _readings(path[place + 1 :]):
            yield [path[:place], *rest]


def _quoted(operator: str, path: str, name: str) -> str:
    if not name or '"' in name:
        raise UnsupportedFilterError(QDRANT, operator, path, "it has no way to write this field name")
    return name if _PLAIN.fullmatch(name) else f'"{name}"'


def _absent(key: str) -> Condition:
    # An empty list counts as absent: Qdrant does not tell them apart.
    return {"must": [_is_empty(key)], "must_not": [{"is_null": {"key": key}}]}


def _scalar(key: str, condition: Condition) -> Condition:
    return {"must": [condition, _is_empty(f"{key}[]")]}


def _listed(key: str, condition: Condition) -> Condition:
    return {"must": [condition], "must_not": [_is_empty(f"{key}[]")]}


def _matches(operator: str, path: str, key: str, value: Scalar) -> Condition:
    if isinstance(value, bool | str):
        return {"key": key, "match": {"value": value}}
    check_number(QDRANT, operator, path, value)
    return {"key": key, "range": {"gte": value, "lte": value}}


def _one_of(path: str, key: str, values: tuple[Scalar, ...]) -> Condition:
    texts = [value for value in values if isinstance(value, str)]
    conditions = [_matches("$in", path, key, value) for value in values if not isinstance(value, str)]
    if texts:
        conditions.append({"key": key, "match": {"any": texts}})
    return {"should": conditions} if conditions else NOTHING


def _ordered(operator: str, path: str, key: str, value: int | float | str) -> Condition:
    if isinstance(value, str):
        raise UnsupportedFilterError(QDRANT, operator, path, "it orders numbers only, no strings")
    check_number(QDRANT, operator, path, value)
    return {"key": key, "range": {operator.removeprefix("$"): value}}
