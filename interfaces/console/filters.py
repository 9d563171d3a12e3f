"""Filters as people build them: conditions that can be added and taken away, and the `where` that they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from interfaces.console.forms import json_of
from schemas.errors import InvalidInputError

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
Where = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Condition:
    """A part of a filter, in words, and the filter without it (None when nothing is left)."""

    words: str
    without: Where | None


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
    return both(where, condition)


def both(where: Where | None, condition: Where) -> Where:
    """Return the filter of what matches a condition besides another filter, if there is one."""
    return condition if where is None else {"$and": [*_parts(where), condition]}


def having(field: str, value: Any) -> Where:
    """Return a filter of the documents that have a value in a field, by itself or in a list, as facets count it."""
    return {"$or": [{field: value}, {field: {"$contains": value}}]}


def conditions_of(where: Where | None) -> list[Condition]:
    """Return the conditions that must all hold, each with the filter that is left without it."""
    parts = [] if where is None else _parts(where)
    return [
        Condition(_words(part), _joined([other for place, other in enumerate(parts) if place != mine]))
        for mine, part in enumerate(parts)
    ]


def _parts(where: Where) -> list[Where]:
    parts: list[Where] = []
    for field, operand in where.items():
        if field == "$and" and isinstance(operand, list) and all(isinstance(each, dict) for each in operand):
            for each in operand:
                parts += _parts(each)
        else:
            parts.append({field: operand})
    return parts


def _joined(parts: list[Where]) -> Where | None:
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else {"$and": parts}


def _words(part: Where) -> str:
    ((field, operand),) = part.items()
    match operand:
        case [{**first}, _] if len(first) == 1:
            name, value = str(next(iter(first))), next(iter(first.values()))
            if part == having(name, value):
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
