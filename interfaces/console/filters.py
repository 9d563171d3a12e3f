"""Filters as people build them: conditions that can be added and taken away, and the `where` that they make. Facets:
how often each value of a field occurs, to narrow a question or a list by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import orjson

from interfaces.console.forms import json_of
from interfaces.console.wire import RefusedError, Wire, encoded
from schemas.errors import InvalidInputError
from schemas.metadata import UNNAMEABLE

OPERATORS = {
    "$eq": "is",
    "$ne": "is not",
    "$gt": "greater than",
    "$gte": "at least",
    "$lt": "less than",
    "$lte": "at most",
    "$in": "one of",
    "$nin": "none of",
    "$contains": "list contains",
    "$exists": "is there",
}
FIELDS = ("kind", "source", "tags", "language")
"""The fields of documents that were read from files and texts."""
MOST_COLLECTIONS = 5
"""The collections whose values are counted, at most."""
MOST_VALUES = 8
Where = dict[str, Any]


def added(where: Where | None, field: str, operator: str, value: str) -> Where | None:
    """Return a filter with one more condition. A value is read as JSON where it is JSON, else it is a string; for
    operators with several values it is a JSON array, or values with commas between them. Without a field the filter
    stays as it is.

    Raises InvalidInputError for an operator that is none.
    """
    if not field.strip():
        return where
    if operator not in OPERATORS:
        raise InvalidInputError(f"'{operator}' is no operator", field="op", allowed=sorted(OPERATORS))
    operand: Any = _read(value)
    if operator in ("$in", "$nin") and not isinstance(operand, list):
        operand = [_read(each) for each in value.split(",")]
    if operator == "$exists":
        operand = operand is not False
    condition = {field.strip(): operand if operator == "$eq" and not isinstance(operand, dict) else {operator: operand}}
    return _both(where, condition)


def narrowed(where: Where | None, conditions: Iterable[str]) -> Where | None:
    """Return a filter that a document must match besides conditions, each a JSON array of a field and the value that it
    must have. Raises InvalidInputError."""
    for condition in conditions:
        said = json_of(condition, "only")
        if not isinstance(said, list) or len(said) != 2 or not isinstance(said[0], str):
            raise InvalidInputError("only must be a JSON array of a field and its value", field="only")
        field, value = said
        if field.startswith(UNNAMEABLE):
            sentence = "only must begin with the name of a field that filters know, not an operator"
            raise InvalidInputError(sentence, field="only")
        where = _both(where, _having(field, value))
    return where


def conditions_of(where: Where | None) -> list[tuple[str, Where | None]]:
    """Return the conditions that must all hold, in words, each with the filter that is left without it (None when
    nothing is)."""
    parts = [] if where is None else _parts(where)
    left = [[other for place, other in enumerate(parts) if place != mine] for mine in range(len(parts))]
    return [
        (_words(part), None if not others else others[0] if len(others) == 1 else {"$and": others})
        for part, others in zip(parts, left, strict=True)
    ]


def facets_of(wire: Wire, collections: Iterable[str], where: Where | None) -> dict[str, list[tuple[Any, int]]]:
    """Return how often the values of `FIELDS` occur in these collections, most frequent first. A field that has one
    value tells nothing."""
    counts: dict[str, Counter[str]] = {field: Counter() for field in FIELDS}
    for name in list(collections)[:MOST_COLLECTIONS]:
        try:
            told = wire.get(
                encoded("collections", name, "facets"), aside=True, fields=",".join(FIELDS), where=where, limit=50
            )
        except RefusedError:  # it may have been deleted meanwhile
            continue
        for field in FIELDS:
            for each in told["facets"][field]["values"]:
                counts[field][orjson.dumps(each["value"]).decode()] += each["count"]
    return {
        field: [(orjson.loads(value), count) for value, count in found.most_common(MOST_VALUES)]
        for field, found in counts.items()
        if len(found) > 1
    }


def _both(where: Where | None, condition: Where) -> Where:
    """Return the filter of what matches a condition besides another filter, if there is one."""
    return condition if where is None else {"$and": [*_parts(where), condition]}


def _having(field: str, value: Any) -> Where:
    """Return a filter of the documents that have a value in a field, by itself or in a list, as facets count it."""
    return {"$or": [{field: value}, {field: {"$contains": value}}]}


def _parts(where: Where) -> list[Where]:
    parts: list[Where] = []
    for field, operand in where.items():
        if field == "$and" and isinstance(operand, list) and all(isinstance(each, dict) for each in operand):
            for each in operand:
                parts += _parts(each)
        else:
            parts.append({field: operand})
    return parts


def _words(part: Where) -> str:
    ((field, operand),) = part.items()
    match operand:
        case [{**first}, _] if len(first) == 1:
            name, value = str(next(iter(first))), next(iter(first.values()))
            if part == _having(name, value):
                return f"{name} has {_spelled(value)}"
    if field.startswith("$"):
        return orjson.dumps(part).decode()
    if isinstance(operand, dict) and len(operand) == 1:
        ((operator, value),) = operand.items()
        if operator in OPERATORS:
            return f"{field} {OPERATORS[operator]} {_spelled(value)}"
    return f"{field} is {_spelled(operand)}"


def _spelled(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _read(text: str) -> Any:
    try:
        orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return text.strip()
    return json_of(text, "value")
