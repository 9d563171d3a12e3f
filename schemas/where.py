"""The `where` grammar: a filter is parsed and checked once, at the edge, and travels as a small tree from there.

Readers translate the tree to SQL (`wrapper/catalog/filters.py`), evaluate it (the model in the tests), turn it into
another dialect (`providers/*/filters.py`) or spell it as JSON again (`to_json`). Negative operators become `Not` of the
positive one, because `$ne`, `$nin` and `$not_contains` also match documents that lack the field (Chroma's meaning);
`{}` becomes an empty `And`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from schemas.errors import InvalidFilterError
from schemas.json_pointers import escaped
from schemas.words.operators import AROUND_CONDITIONS, hint, meant, other_filter
from schemas.words.regular_expressions import BadPatternError, compiled

MAX_DEPTH = 64
"""The most operators within one another, as deep as any client of Chroma can nest them; chains of one count once."""
MAX_VALUES = 10_000
"""The most values, and the most filters below `$and` and `$or`."""
MAX_COMPARISONS = 1_000
"""The most of `$gt`, `$gte`, `$lt` and `$lte`: unlike values, each is a step of its own for the database."""

MAX_EXPRESSIONS = 64
"""The most regular expressions: each may take megabytes, and PostgreSQL reads the texts for each."""

Scalar = bool | int | float | str
_Placed = tuple[Any, str]
"""A part of a filter, and the JSON Pointer to it."""


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
"""What Chroma's clients call these two, understood on every route."""
CHROMA_TEXT = "chroma:document"
"""What Chroma calls the text where it stores it."""
NEGATIVE = {"$in": "$nin", "$contains": "$not_contains", "$regex": "$not_regex"}
"""The operators that JSON has for what others find and do not find."""
ASKED_OTHERWISE = {
    type(None): ' (absence is asked with {"$exists": false})',
    list: ' (one of several values is asked with {"$in": […]})',
}


def all_of(*filters: Where) -> Where:
    """Return the filter that matches what all of these match. It has no `And` inside an `And`."""
    parts = tuple(part for each in filters for part in (each.parts if isinstance(each, And) else (each,)))
    return parts[0] if len(parts) == 1 else And(parts)


def any_of(*filters: Where) -> Where:
    """Return the filter that matches what any of these matches. It has no `Or` inside an `Or`."""
    parts = tuple(part for each in filters for part in (each.parts if isinstance(each, Or) else (each,)))
    return parts[0] if len(parts) == 1 else Or(parts)


def negated(where: Where) -> Where:
    """Return the filter that matches what this one does not. It has no `Not` inside a `Not`."""
    return where.part if isinstance(where, Not) else Not(where)


def matches_empty_document(where: Where) -> bool:
    """Return whether a document that has no field, no text and no id would match: such a filter, like `{}` or one that
    says what a misspelt field is not, may match every document without being meant to."""
    match where:
        case And(parts):
            return all(map(matches_empty_document, parts))
        case Or(parts):
            return any(map(matches_empty_document, parts))
        case Not(part):
            return not matches_empty_document(part)
    return False


def matches_everything(where: Where, *, negated: bool = False) -> bool:
    """Return whether a filter leaves no document out, whatever there is, because of what it is made of, like
    `{"$or": [{}, …]}`; `negated`, whether it leaves all out."""
    match where:
        case And(parts) | Or(parts):
            every = all if isinstance(where, Or) is negated else any
            return every(matches_everything(each, negated=negated) for each in parts)
        case Not(part):
            return matches_everything(part, negated=not negated)
        case In(_, ()) | HasId(()):
            return negated
    return False


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
        case TextMatches(pattern):
            return {TEXT: {"$regex": pattern}}
        case HasId(ids):
            return {ID: {"$in": list(ids)}}
        case Not(Equals(field, value)):
            return {field: {"$ne": value}}
        case Not(Exists(field)):
            return {field: {"$exists": False}}
        case Not(In() | Contains() | HasId() | TextContains() | TextMatches() as part):
            [(key, said)] = to_json(part).items()
            return {key: {NEGATIVE[operator]: operand for operator, operand in said.items()}}
        case Not(part):
            return {"$not": to_json(part)}
        case Or(parts):
            return {"$or": [to_json(part) for part in parts]}
        case And(parts):
            return _joined([to_json(part) for part in parts])


def _joined(filters: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a filter that says all of these, without `$and` where each is about another field."""
    merged = {key: operand for each in filters for key, operand in each.items()}
    return merged if len(merged) == len(filters) and all(len(each) == 1 for each in filters) else {"$and": filters}


def parse_where(source: Any, name: str = "where") -> Where:
    """Return the tree of a decoded JSON filter, which errors call `name`; None and `{}` are no filter (`EVERYTHING`).

    It has no `And` in an `And`, `Or` in an `Or` and `Not` in a `Not`, however many there were. Raises
    InvalidFilterError whose `details.pointer` is a JSON Pointer to the faulty part.
    """
    if source is None:
        return EVERYTHING
    return _Parser(name).filter(source, "", 0)


def is_reserved(name: str) -> bool:
    """Return whether filters take a name for no field's. Asked for a field of it, they would find that no document has
    one, and below a negation match them all."""
    return name.startswith(("#", "$")) or name.lower() == CHROMA_TEXT


class _Parser:
    def __init__(self, name: str) -> None:
        self._name = name
        self._values = self._joined = self._comparisons = self._expressions = 0

    def filter(self, source: Any, pointer: str, depth: int) -> Where:
        is_joined = isinstance(source, dict) and (len(source) > 1 or "$and" in source)
        return all_of(*self._parts("$and", [(source, pointer)], depth + is_joined))

    def _parts(self, operator: str, filters: list[_Placed], depth: int) -> Iterator[Where]:
        """Yield the parts of a conjunction, or of a disjunction, with those of the same within it."""
        waiting = [iter(filters)]  # no stack of calls: a chain of one operator is as long as somebody likes
        while waiting:
            for source, pointer in waiting[-1]:
                inner = self._inner(operator, source, pointer)
                if inner is not None:
                    waiting.append(iter(inner))
                    break
                if operator == "$or":
                    yield self.filter(source, pointer, depth)
                else:
                    [(key, operand)] = source.items()
                    yield self._part(key, operand, f"{pointer}/{escaped(key)}", depth)
            else:
                waiting.pop()

    def _inner(self, operator: str, source: Any, pointer: str) -> list[_Placed] | None:
        """Return the filters that make up this one, if it only joins them by the operator."""
        if not isinstance(source, dict):
            raise self._fault(f"a filter must be an object, not {_kind(source)}", pointer)
        if said := other_filter(source):
            raise self._fault(said, pointer)
        if len(source) == 1 and operator in source:
            return self._filters(operator, source[operator], f"{pointer}/{operator}")
        if len(source) != 1 and operator == "$and":
            return [({key: operand}, pointer) for key, operand in source.items()]
        return None

    def _filters(self, operator: str, operand: Any, pointer: str) -> list[_Placed]:
        if not isinstance(operand, list) or not operand:
            raise self._fault(f"{operator} needs a list of at least one filter", pointer)
        self._joined += len(operand)
        self._check_most(self._joined, MAX_VALUES, "filters below $and and $or", pointer)
        return [(each, f"{pointer}/{index}") for index, each in enumerate(operand)]

    def _part(self, key: str, operand: Any, pointer: str, depth: int) -> Where:
        name = CHROMA_NAMES.get(key, key)
        if is_reserved(name) and not name.startswith("$"):
            likely = TEXT if key[0] != "#" else meant(key[1:], CHROMA_NAMES.values())
            near = [f"did you mean '{each}'?" for each, own in CHROMA_NAMES.items() if own == likely]
            also = near[0] if near else f"beside fields there are {' and '.join(CHROMA_NAMES)}"
            raise self._fault(f"'{key}' is no field: {also}", pointer)
        if not name.startswith("$"):
            if isinstance(operand, dict):
                return self._operators(key, operand, pointer, depth + 1)
            if isinstance(operand, list) and (said := hint(key, LOGICAL)):
                raise self._fault(f"a field is not compared with a list{said}", pointer)
            return Equals(key, self._scalar(operand, pointer))
        self._check_depth(depth + 1, pointer)
        match name:
            case "$id":
                return self._ids(key, operand, pointer)
            case "$text":
                return self._text(key, operand, pointer)
            case "$or":
                return any_of(*self._parts(key, self._filters(key, operand, pointer), depth + 1))
            case "$not":
                operand, pointer, is_odd = _unwrapped(operand, pointer)
                part = self.filter(operand, pointer, depth + 1)
                return negated(part) if is_odd else part
        known = (*LOGICAL, ID, TEXT)
        said = hint(key, known)
        if key in (*OPERATORS, *TEXT_OPERATORS):
            below = [name for name, own in (("field", OPERATORS), (TEXT, TEXT_OPERATORS)) if key in own]
            said = f": it is written below, {' or '.join(f'{{{name}: {{{key}: …}}}}' for name in below)}"
        raise self._unknown(key, said, known, pointer)

    def _ids(self, key: str, operand: Any, pointer: str) -> Where:
        operators = operand if isinstance(operand, dict) else {"$eq": operand}
        if not operators:
            raise self._fault(f"{key} needs an id or an operator", pointer, allowed=list(ID_OPERATORS))
        parts: list[Where] = []
        for name, given in operators.items():
            here = f"{pointer}/{escaped(name)}" if operators is operand else pointer
            if name not in ID_OPERATORS:
                raise self._unknown(name, f" of {key}{hint(name, ID_OPERATORS)}", ID_OPERATORS, here)
            one_of = HasId(self._strings(name, given if name in ("$in", "$nin") else [given], here))
            parts.append(Not(one_of) if name in ("$ne", "$nin") else one_of)
        return all_of(*parts)

    def _text(self, key: str, operand: Any, pointer: str) -> Where:
        if not isinstance(operand, dict) or not operand:
            raise self._fault(f"{key} needs an object with operators", pointer, allowed=list(TEXT_OPERATORS))
        parts: list[Where] = []
        for name, given in operand.items():
            here = f"{pointer}/{escaped(name)}"
            if name not in TEXT_OPERATORS:
                raise self._unknown(name, f" of {key}{hint(name, TEXT_OPERATORS)}", TEXT_OPERATORS, here)
            if not isinstance(given, str):
                raise self._fault(f"{name} needs a string, not {_kind(given)}", here)
            self._count(1, here)
            one: Where = TextContains(given)
            if name.endswith("regex"):
                self._expressions += 1
                self._check_most(self._expressions, MAX_EXPRESSIONS, "regular expressions", here)
                try:
                    compiled(given)
                except BadPatternError as error:
                    raise self._fault(f"not a regular expression: {error}", here) from None
                one = TextMatches(given)
            parts.append(negated(one) if name.startswith("$not") else one)
        return all_of(*parts)

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
        return all_of(
            *(
                self._operator(field, name, operand, f"{pointer}/{escaped(name)}", depth)
                for name, operand in operators.items()
            )
        )

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
                self._check_most(self._comparisons, MAX_COMPARISONS, "comparisons", pointer)
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
                operand, pointer, is_odd = _unwrapped(operand, pointer)
                if not isinstance(operand, dict):
                    raise self._fault(f"$not needs an object with operators, not {_kind(operand)}", pointer)
                part = self._operators(field, operand, pointer, depth + 1)
                return negated(part) if is_odd else part
        joining = meant(name, LOGICAL[:2])
        said = f": it joins filters, {{{joining}: [{{field: …}}, …]}}" if joining else hint(name, OPERATORS)
        if not said and field.lower() in AROUND_CONDITIONS:
            said = f"; conditions are written without '{field}', {{{name}: …}}, and a nested field as '{field}.{name}'"
        elif not joining and not name.startswith("$"):
            said += f"{' (' if said else '; '}a nested field is written '{field}.{name}'{')' if said else ''}"
            if logical := meant(field, LOGICAL):
                said += f"; '{field}' is a field: did you mean '{logical}'?"
        raise self._unknown(name, said, OPERATORS, pointer)

    def _unknown(self, name: str, said: str, known: tuple[str, ...], pointer: str) -> InvalidFilterError:
        return self._fault(f"unknown operator '{name}'{said}", pointer, allowed=list(known))

    def _scalars(self, name: str, operand: Any, pointer: str) -> tuple[Scalar, ...]:
        if not isinstance(operand, list):
            raise self._fault(f"{name} needs a list, not {_kind(operand)}", pointer)
        return tuple(self._scalar(value, f"{pointer}/{index}") for index, value in enumerate(operand))

    def _scalar(self, operand: Any, pointer: str) -> Scalar:
        if not isinstance(operand, bool | int | float | str):
            also = ASKED_OTHERWISE.get(type(operand), "")
            raise self._fault(
                f"the operand must be a string, a number or a boolean, not {_kind(operand)}{also}", pointer
            )
        self._count(1, pointer)
        return operand

    def _count(self, values: int, pointer: str) -> None:
        self._values += values
        self._check_most(self._values, MAX_VALUES, "values", pointer)

    def _check_most(self, count: int, most: int, what: str, pointer: str) -> None:
        if count > most:
            raise self._fault(f"more than {most} {what}", pointer, limit=most)

    def _check_depth(self, depth: int, pointer: str) -> None:
        if depth > MAX_DEPTH:
            raise self._fault(f"operators are nested more than {MAX_DEPTH} deep", pointer, limit=MAX_DEPTH)

    def _fault(self, reason: str, pointer: str, **details: Any) -> InvalidFilterError:
        sentence = f"Invalid '{self._name}' filter: {reason}"
        return InvalidFilterError(sentence, field=self._name, pointer=pointer, **details)


def _unwrapped(operand: Any, pointer: str) -> tuple[Any, str, bool]:
    """Return what the innermost of negations that follow each other negates, its place, and whether their number is
    odd; the first one is above `operand`."""
    is_odd = True
    while isinstance(operand, dict) and operand.keys() == {"$not"}:
        operand, pointer, is_odd = operand["$not"], f"{pointer}/$not", not is_odd
    return operand, pointer, is_odd


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
