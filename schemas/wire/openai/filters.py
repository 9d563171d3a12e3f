"""OpenAI's filters of files by their attributes as the `where` tree."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from marshmallow import ValidationError, fields

from schemas.contracts.vector_stores import OWN_NAMES, stored_name
from schemas.metadata import SHOWN_CHARACTERS, UNNAMEABLE
from schemas.where import (
    MAX_COMPARISONS,
    MAX_DEPTH,
    MAX_VALUES,
    Equals,
    Exists,
    In,
    Not,
    Ordered,
    Scalar,
    Where,
    all_of,
    any_of,
)
from schemas.words.operators import meant

ORDERS, LISTS = ("gt", "gte", "lt", "lte"), ("in", "nin")
COMPARISONS = ("eq", "ne", *ORDERS, *LISTS)
COMPOUNDS = {"and": all_of, "or": any_of}
AS_ONE = {"and": {"ne": "nin", "nin": "nin"}, "or": {"eq": "in", "in": "in"}}
"""What comparisons of one attribute below a compound are together."""
TYPES = (*COMPARISONS, *COMPOUNDS)


class Filters(fields.Field[Where]):
    """`{type, key, value}`, or `{type: and|or, filters: […]}` of such. Errors name the part, `filters[1].key`."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> Where:
        return _Reader().filter(value, "", 0)


class _Reader:
    """Reads one filter. A `place` is the path to a part of it, to which a name can be added."""

    def __init__(self) -> None:
        self._values = self._comparisons = 0

    def filter(self, source: Any, place: str, depth: int) -> Where:
        if not isinstance(source, dict):
            raise _wrong(place, "must be an object with a type")
        kind = source.get("type")
        if not isinstance(kind, str) or kind not in TYPES:
            likely = meant(kind, [f"${each}" for each in TYPES]) if isinstance(kind, str) else None
            also = "" if likely is None else f": did you mean '{likely[1:]}'?"
            raise _wrong(f"{place}type", f"must be one of {', '.join(TYPES)}{also}")
        if kind not in COMPOUNDS:
            return self._comparison(source, kind, place)
        _check_most(depth + 1, MAX_DEPTH, "levels", f"{place}filters")
        return COMPOUNDS[kind](*self._parts(source, kind, place, depth + 1))

    def _parts(self, compound: Any, kind: str, place: str, depth: int) -> Iterator[Where]:
        """Yield what a compound joins, with the parts of compounds of the same type within it."""
        left = [(compound, place)]  # no stack of calls: a chain of one type is as long as somebody likes
        values: dict[str, list[Scalar]] = {}
        as_one = AS_ONE[kind]
        while left:
            source, here = left.pop()
            if not isinstance(source, dict) or source.get("type") != kind:
                part = self.filter(source, here, depth)
                if isinstance(source, dict) and source["type"] in as_one:
                    value = source["value"]
                    values.setdefault(source["key"], []).extend(value if isinstance(value, list) else [value])
                else:
                    yield part
                continue
            _check_names(source, ("type", "filters"), here)
            within = source.get("filters")
            if not isinstance(within, list) or not within:
                raise _wrong(f"{here}filters", f"must be a list of at least one filter below '{kind}'")
            self._count(len(within), f"{here}filters")
            left += [(each, f"{here}filters[{number}].") for number, each in enumerate(within)][::-1]
        [together] = set(as_one.values())
        yield from (_comparing(together, key, each) for key, each in values.items())

    def _comparison(self, source: dict[str, Any], kind: str, place: str) -> Where:
        _check_names(source, ("type", "key", "value"), place)
        key, value, here = source.get("key"), source.get("value"), f"{place}value"
        if not isinstance(key, str) or not key:
            raise _wrong(f"{place}key", "must name an attribute")
        if kind in LISTS:
            if not isinstance(value, list):
                raise _wrong(here, f"must be a list below '{kind}'")
            self._count(len(value), here)
            for number, each in enumerate(value):
                _check_value(each, f"{here}[{number}]")
        elif isinstance(value, list):
            raise _wrong(here, f"must be one value below '{kind}': lists go with 'in' and 'nin'")
        else:
            self._count(1, here)
            _check_value(value, here)
        if kind in ORDERS:
            if isinstance(value, bool):
                raise _wrong(here, f"must be a text or a number below '{kind}'")
            self._comparisons += 1
            _check_most(self._comparisons, MAX_COMPARISONS, "comparisons by size", here)
        return _comparing(kind, key, value)

    def _count(self, values: int, place: str) -> None:
        self._values += values
        _check_most(self._values, MAX_VALUES, "filters and values", place)


def _comparing(kind: str, key: str, value: Any) -> Where:
    if key.startswith("$") and key[1:] in OWN_NAMES:
        return _condition(kind, key[1:], value)
    stored = stored_name(key)
    said = _condition(kind, stored, value)
    if stored == key or key.startswith(UNNAMEABLE):
        return said
    # What the service knows counts for documents of which nobody has said anything by that name.
    is_said = Exists(stored)
    return any_of(all_of(said, is_said), all_of(Not(is_said), _condition(kind, key, value)))


def _condition(kind: str, field: str, value: Any) -> Where:
    match kind:
        case "eq":
            return Equals(field, value)
        case "ne":
            return Not(Equals(field, value))
        case "in":
            return In(field, tuple(value))
        case "nin":
            return Not(In(field, tuple(value)))
    return Ordered(field, f"${kind}", value)


def _check_names(source: dict[str, Any], names: Collection[str], place: str) -> None:
    for name, value in source.items():
        if name not in names and value is not None:
            shown = name[:SHOWN_CHARACTERS]
            raise _wrong(
                f"{place}{shown}", f"is unknown beside the type '{source['type']}', which has {', '.join(names)}"
            )


def _check_value(value: Any, place: str) -> None:
    if not isinstance(value, str | int | float):
        raise _wrong(place, "must be a text, a number or a boolean")


def _check_most(count: int, most: int, what: str, place: str) -> None:
    if count > most:
        raise _wrong(place, f"is beyond the {most:,} {what} that a filter may have")


def _wrong(place: str, sentence: str) -> ValidationError:
    part = place.removesuffix(".")
    return ValidationError({part: [sentence]} if part else sentence)
