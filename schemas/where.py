"""The `where` grammar: a filter is parsed and checked once, at the edge, and travels as a small tree from there.

Readers translate the tree to SQL (`wrapper/catalog/filters.py`), evaluate it (the model in the tests), turn it into
another dialect (`providers/*/filters.py`) or spell it as JSON again (`to_json`). Negative operators become `Not` of the
positive one, because `$ne`, `$nin` and `$not_contains` also match documents that lack the field (Chroma's meaning);
`{}` becomes an empty `And`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from schemas.errors import InvalidFilterError
from schemas.json_pointers import escaped
from schemas.words.regular_expressions import BadPatternError, compiled

MAX_DEPTH = 16
MAX_VALUES = 10_000
MAX_COMPARISONS = 1_000
"""The most of `$gt`, `$gte`, `$lt` and `$lte`: unlike values, each is a step of its own for the database."""

Scalar = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Equals:
    """The field holds exactly this bool, number (1 equals 1.0) or string."""

    field: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class Ordered:
    """The field holds a value of the operand's type (number, or string by code point) on this side of it."""

    field: str
    operator: str
    """One of `$gt`, `$gte`, `$lt`, `$lte`."""
    value: int | float | str


@dataclass(frozen=True, slots=True)
class In:
    """The field holds one of the values. An empty list matches nothing."""

    field: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Contains:
    """The field holds a list and the value is one of its elements."""

    field: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class Exists:
    """The document has the field, whatever it holds (null, an object or a list too)."""

    field: str


@dataclass(frozen=True, slots=True)
class HasId:
    """The document's id is one of these."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextContains:
    """The document has a text, and this is a part of it, letter for letter."""

    part: str


@dataclass(frozen=True, slots=True)
class TextMatches:
    """The document has a text, and this regular expression matches somewhere in it."""

    pattern: str


@dataclass(frozen=True, slots=True)
class And:
    """Every part holds. Without parts it matches every document."""

    parts: tuple[Where, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part holds."""

    parts: tuple[Where, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Where


Where = Equals | Ordered | In | Contains | Exists | HasId | TextContains | TextMatches | And | Or | Not

EVERYTHING = And(())
"""The filter that every document matches."""

OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$contains", "$not_contains", "$not")
LOGICAL = ("$and", "$or", "$not")
ID = "$id"
"""What stands for the id of a document in a filter. A field of the metadata of that name cannot be asked for."""
ID_OPERATORS = ("$eq", "$ne", "$in", "$nin")
TEXT = "$text"
"""What stands for the text of a document in a filter."""
TEXT_OPERATORS = ("$contains", "$not_contains", "$regex", "$not_regex")
CHROMA_NAMES = {"#id": ID, "#document": TEXT}
"""What Chroma's clients call these two, understood on every route. No field of that name can be asked for."""


def all_of(*filters: Where) -> Where:
    """Return the filter that matches what all of these match. It has no `And` inside an `And`."""
    parts = tuple(part for each in filters for part in (each.parts if isinstance(each, And) else (each,)))
    return parts[0] if len(parts) == 1 else And(parts)


def to_json(where: Where) -> dict[str, Any]:
    """Return the JSON filter from which `parse_where` makes this tree."""
    match where:
        case Equals(field, value):
            return {field: value}
        case Ordered(field, operator, value):
            return {field: {operator: value}}
        case In(field, values):
            return {field: {"$in": list(values)}}
        case Contains(field, value):
            return {field: {"$contains": value}}
        case Exists(field):
            return {field: {"$exists": True}}
        case TextContains(part):
            return {TEXT: {"$contains": part}}
        case Not(TextContains(part)):
            return {TEXT: {"$not_contains": part}}
        case TextMatches(pattern):
            return {TEXT: {"$regex": pattern}}
        case Not(TextMatches(pattern)):
            return {TEXT: {"$not_regex": pattern}}
        case HasId(ids):
            return {ID: {"$in": list(ids)}}
        case Not(HasId(ids)):
            return {ID: {"$nin": list(ids)}}
        case Not(Equals(field, value)):
            return {field: {"$ne": value}}
        case Not(In(field, values)):
            return {field: {"$nin": list(values)}}
        case Not(Contains(field, value)):
            return {field: {"$not_contains": value}}
        case Not(Exists(field)):
            return {field: {"$exists": False}}
        case Not(part):
            return _negated(to_json(part))
        case Or(parts):
            return {"$or": [to_json(part) for part in parts]}
        case And(parts):
            return _joined([to_json(part) for part in parts])


def _negated(filter_: dict[str, Any]) -> dict[str, Any]:
    """Return the negation of a filter, below its field where it is about a single one."""
    if len(filter_) == 1:
        [(key, operand)] = filter_.items()
        if isinstance(operand, dict) and key not in LOGICAL:
            return {key: {"$not": operand}}
    return {"$not": filter_}


def _joined(filters: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a filter that says all of these.

    It does without `$and` where it can, which would be a level more: a parser takes only `MAX_DEPTH`.
    """
    merged = _merged(filters)
    if merged is not None:
        return merged
    fields = {key for each in filters for key in each}
    if len(fields) == 1 and fields.isdisjoint(LOGICAL) and all(filters):
        field = fields.pop()
        operands = [each[field] for each in filters]
        merged = _merged([operand if isinstance(operand, dict) else {"$eq": operand} for operand in operands])
        if merged is not None:
            return {field: merged}
    return {"$and": filters}


def _merged(objects: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return objects of one key each as one object, None where that would lose something."""
    merged = {key: value for each in objects for key, value in each.items()}
    return merged if len(merged) == len(objects) and all(len(each) == 1 for each in objects) else None


def parse_where(source: Any, name: str = "where") -> Where:
    """Return the tree of a decoded JSON filter, which errors call `name`; None and `{}` are no filter (`EVERYTHING`).

    Raises InvalidFilterError whose `details.pointer` is a JSON Pointer to the faulty part.
    """
    if source is None:
        return EVERYTHING
    return _Parser(name).filter(source, "", 0)


class _Parser:
    def __init__(self, name: str) -> None:
        self._name = name
        self._values = self._comparisons = 0

    def filter(self, source: Any, pointer: str, depth: int) -> Where:
        if not isinstance(source, dict):
            raise self._fault(f"a filter must be an object, not {_kind(source)}", pointer)
        parts: list[Where] = []
        for key, operand in source.items():
            here = f"{pointer}/{escaped(key)}"
            meant = CHROMA_NAMES.get(key, key)
            if meant == ID:
                parts.append(self._ids(key, operand, here, depth + 1))
            elif meant == TEXT:
                parts.append(self._text(key, operand, here, depth + 1))
            elif key.startswith("$"):
                parts.append(self._logical(key, operand, here, depth + 1))
            elif isinstance(operand, dict):
                parts.append(self._operators(key, operand, here, depth + 1))
            else:
                parts.append(Equals(key, self._scalar(operand, here)))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _logical(self, operator: str, operand: Any, pointer: str, depth: int) -> Where:
        self._check_depth(depth, pointer)
        if operator == "$not":
            return Not(self.filter(operand, pointer, depth))
        if operator not in LOGICAL:
            raise self._fault(f"unknown operator '{operator}'", pointer, allowed=[*LOGICAL, ID, TEXT])
        if not isinstance(operand, list) or not operand:
            raise self._fault(f"{operator} needs a list of at least one filter", pointer)
        self._count(len(operand), pointer)
        parts = tuple(self.filter(part, f"{pointer}/{index}", depth) for index, part in enumerate(operand))
        if len(parts) == 1:
            return parts[0]
        return And(parts) if operator == "$and" else Or(parts)

    def _ids(self, key: str, operand: Any, pointer: str, depth: int) -> Where:
        self._check_depth(depth, pointer)
        operators = operand if isinstance(operand, dict) else {"$eq": operand}
        if not operators:
            raise self._fault(f"{key} needs an id or an operator", pointer, allowed=list(ID_OPERATORS))
        parts: list[Where] = []
        for name, given in operators.items():
            here = f"{pointer}/{escaped(name)}" if operators is operand else pointer
            if name not in ID_OPERATORS:
                raise self._fault(f"unknown operator '{name}' of {key}", here, allowed=list(ID_OPERATORS))
            one_of = HasId(self._strings(name, given if name in ("$in", "$nin") else [given], here))
            parts.append(Not(one_of) if name in ("$ne", "$nin") else one_of)
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _text(self, key: str, operand: Any, pointer: str, depth: int) -> Where:
        self._check_depth(depth, pointer)
        if not isinstance(operand, dict) or not operand:
            raise self._fault(f"{key} needs an object with operators", pointer, allowed=list(TEXT_OPERATORS))
        parts: list[Where] = []
        for name, given in operand.items():
            here = f"{pointer}/{escaped(name)}"
            if name not in TEXT_OPERATORS:
                raise self._fault(f"unknown operator '{name}' of {key}", here, allowed=list(TEXT_OPERATORS))
            if not isinstance(given, str):
                raise self._fault(f"{name} needs a string, not {_kind(given)}", here)
            self._count(1, here)
            one: Where = TextContains(given)
            if name.endswith("regex"):
                try:
                    compiled(given)
                except BadPatternError as error:
                    raise self._fault(f"not a regular expression: {error}", here) from None
                one = TextMatches(given)
            parts.append(Not(one) if name.startswith("$not") else one)
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _strings(self, name: str, operand: Any, pointer: str) -> tuple[str, ...]:
        ids = self._scalars(name, operand, pointer)
        for index, each in enumerate(ids):
            if not isinstance(each, str):
                raise self._fault(f"an id is a string, not {_kind(each)}", f"{pointer}/{index}")
        return tuple(str(each) for each in ids)

    def _operators(self, field: str, operators: dict[str, Any], pointer: str, depth: int) -> Where:
        self._check_depth(depth, pointer)
        if not operators:
            raise self._fault("a field needs at least one operator", pointer, allowed=list(OPERATORS))
        parts = tuple(
            self._operator(field, name, operand, f"{pointer}/{escaped(name)}", depth)
            for name, operand in operators.items()
        )
        return parts[0] if len(parts) == 1 else And(parts)

    def _operator(self, field: str, name: str, operand: Any, pointer: str, depth: int) -> Where:
        match name:
            case "$eq":
                return Equals(field, self._scalar(operand, pointer))
            case "$ne":
                return Not(Equals(field, self._scalar(operand, pointer)))
            case "$gt" | "$gte" | "$lt" | "$lte":
                value = self._scalar(operand, pointer)
                if isinstance(value, bool):
                    raise self._fault(f"{name} compares numbers or strings, not a boolean", pointer)
                self._comparisons += 1
                if self._comparisons > MAX_COMPARISONS:
                    raise self._fault(f"more than {MAX_COMPARISONS} comparisons", pointer, limit=MAX_COMPARISONS)
                return Ordered(field, name, value)
            case "$in":
                return In(field, self._scalars(name, operand, pointer))
            case "$nin":
                return Not(In(field, self._scalars(name, operand, pointer)))
            case "$contains":
                return Contains(field, self._scalar(operand, pointer))
            case "$not_contains":
                return Not(Contains(field, self._scalar(operand, pointer)))
            case "$exists":
                if not isinstance(operand, bool):
                    raise self._fault(f"$exists needs true or false, not {_kind(operand)}", pointer)
                return Exists(field) if operand else Not(Exists(field))
            case "$not":
                if not isinstance(operand, dict):
                    raise self._fault(f"$not needs an object with operators, not {_kind(operand)}", pointer)
                return Not(self._operators(field, operand, pointer, depth + 1))
        hint = "" if name.startswith("$") else f"; a nested field is written '{field}.{name}'"
        raise self._fault(f"unknown operator '{name}'{hint}", pointer, allowed=list(OPERATORS))

    def _scalars(self, name: str, operand: Any, pointer: str) -> tuple[Scalar, ...]:
        if not isinstance(operand, list):
            raise self._fault(f"{name} needs a list, not {_kind(operand)}", pointer)
        return tuple(self._scalar(value, f"{pointer}/{index}") for index, value in enumerate(operand))

    def _scalar(self, operand: Any, pointer: str) -> Scalar:
        if not isinstance(operand, bool | int | float | str):
            hint = ' (absence is asked with {"$exists": false})' if operand is None else ""
            raise self._fault(
                f"the operand must be a string, a number or a boolean, not {_kind(operand)}{hint}", pointer
            )
        self._count(1, pointer)
        return operand

    def _count(self, values: int, pointer: str) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            raise self._fault(f"more than {MAX_VALUES} values", pointer, limit=MAX_VALUES)

    def _check_depth(self, depth: int, pointer: str) -> None:
        if depth > MAX_DEPTH:
            raise self._fault(f"more than {MAX_DEPTH} nested operators", pointer, limit=MAX_DEPTH)

    def _fault(self, reason: str, pointer: str, **details: Any) -> InvalidFilterError:
        sentence = f"Invalid '{self._name}' filter: {reason}"
        return InvalidFilterError(sentence, field=self._name, pointer=pointer, **details)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
