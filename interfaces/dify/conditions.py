"""Dify's conditions on metadata as a `where` filter, so that the search itself looks among the matches alone.

Some of Dify's operators ask what no index knows: whether a text contains or ends with another, which instant a text
stands for. These are asked of the values that the field has, and the filter names those that hold. So the answer is
exact, and no match is missed, as it would be if results were sorted out afterwards. What bounds the work is the number
of values, not of documents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from schemas.contracts.dify import Condition
from schemas.errors import InvalidInputError
from schemas.where import EVERYTHING, And, Contains, Exists, In, Not, Or, Ordered, Scalar, Where, all_of

MOST_VALUES = 10_000
"""The most values of a field that are looked at, those in lists apart."""
MOST_ELEMENTS = 1_000
"""The same of those in lists: each is a condition of its own for the database. So many conditions may a filter have."""
LEAST_NUMBER = -1.7976931348623157e308
BEHIND_DIGITS = ":"
"""The character behind `9`: texts from `0` to here begin with a digit, as times do."""
DATE = re.compile(r"\d{4}|\d{6,8}")
"""A text that is a date without hyphens, or meant for one, and no number of seconds."""
DAY = timedelta(days=1)
"""No two ways to write an instant differ by more, whatever their zones."""
TEXT_HOLDS: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda value, given: given in value,
    "start with": str.startswith,
    "end with": str.endswith,
}
ORDERS = {">": "$gt", "<": "$lt", "≥": "$gte", "≤": "$lte"}
NEGATIONS = {"not contains": "contains", "is not": "is", "not in": "in", "≠": "=", "empty": "not empty"}


class Values(Protocol):
    """The distinct values of a field in the collections that are asked."""

    def __call__(self, field: str, where: Where, most: int) -> list[Scalar]:
        """Return those among the documents that match, elements of lists too, at most `most` and one more."""


@dataclass(frozen=True, slots=True)
class ConditionFilters:
    """Makes filters of conditions, by the values that the collections asked have."""

    values: Values

    def where(self, conditions: Iterable[Condition], *, any_holds: bool) -> Where:
        """Return the filter that all conditions make, or any of them. Raises InvalidInputError for a value that an
        operator cannot compare, and for a field of too many values for an operator that looks at each."""
        parts = tuple(self._at(place, each) for place, each in enumerate(conditions))
        if not parts:
            return EVERYTHING
        where = Or(parts) if any_holds and len(parts) > 1 else all_of(*parts)
        if _leaves(where) > 2 * MOST_ELEMENTS:
            raise _unusable("the conditions name too many values of lists")
        return where

    def _at(self, place: int, condition: Condition) -> Where:
        try:
            return self._of(condition)
        except InvalidInputError as error:
            field = f"metadata_condition.conditions.{place}.value"
            raise InvalidInputError(error.message, code=error.code, **{**error.details, "field": field}) from None

    def _of(self, condition: Condition) -> Where:
        positive = NEGATIONS.get(condition.operator)
        if positive is None:
            return _any(self._holds(name, condition.operator, condition.values) for name in condition.names)
        return Not(_any(self._holds(name, positive, condition.values) for name in condition.names))

    def _holds(self, field: str, operator: str, given: tuple[Scalar, ...]) -> Where:
        match operator:
            case "is" | "in":
                return _has_one_of(field, tuple(each for value in given for each in _readings(value)))
            case "=":
                return _has_one_of(field, tuple(_number(value, "= or ≠") for value in given))
            case ">" | "<" | "≥" | "≤":
                return Ordered(field, ORDERS[operator], _number(_single(given, operator), operator))
            case "before" | "after":
                return self._in_time(field, operator, _moment(_single(given, operator), operator))
            case "not empty":
                return self._not_empty(field)
            case _:
                return self._text_holds(field, TEXT_HOLDS[operator], [_text(value) for value in given])

    def _text_holds(self, field: str, holds: Callable[[str, str], bool], given: list[str]) -> Where:
        def is_meant(value: Scalar) -> bool:
            return any(holds(_text(value), each) for each in given)

        own = In(field, tuple(filter(is_meant, self._scalars(field, _has_scalar(field)))))
        return _any([own, *(Contains(field, each) for each in self._elements(field) if is_meant(each))])

    def _in_time(self, field: str, operator: str, moment: datetime) -> Where:
        """Return the filter for numbers, which are seconds since the epoch, and for texts in ISO 8601.

        Where there are too many texts to look at, those that begin with a digit are taken for times: then the order of
        texts is that of times, but for those within a day of the moment, whose zones count.
        """
        is_before = operator == "before"
        seconds = Ordered(field, "$lt" if is_before else "$gt", moment.timestamp())
        early, late = ((moment + shift).date().isoformat() for shift in (-DAY, 2 * DAY))
        texts = self.values(field, Ordered(field, "$gte", ""), MOST_VALUES)
        beyond: Where = In(field, ())
        if len(texts) > MOST_VALUES:
            texts = self._scalars(field, And((Ordered(field, "$gte", early), Ordered(field, "$lt", late))))
            beyond = And(
                (Ordered(field, "$gte", "0"), Ordered(field, "$lt", early))
                if is_before
                else (Ordered(field, "$gte", late), Ordered(field, "$lt", BEHIND_DIGITS))
            )
        instants = {each: at for each in texts if isinstance(each, str) and (at := _instant(each)) is not None}
        meant = tuple(each for each, at in instants.items() if (at < moment if is_before else at > moment))
        return Or((seconds, beyond, In(field, meant)))

    def _not_empty(self, field: str) -> Where:
        return _any(
            [
                Ordered(field, "$gt", ""),
                Ordered(field, "$gte", LEAST_NUMBER),
                In(field, (True, False)),
                *(Contains(field, each) for each in self._elements(field)),
            ]
        )

    def _scalars(self, field: str, where: Where) -> list[Scalar]:
        return self._checked(field, self.values(field, where, MOST_VALUES))

    def _elements(self, field: str) -> list[Scalar]:
        """Return the elements of the lists that the field holds."""
        in_lists = And((Exists(field), Not(_has_scalar(field))))
        return self._checked(field, self.values(field, in_lists, MOST_ELEMENTS), MOST_ELEMENTS)

    def _checked(self, field: str, found: list[Scalar], most: int = MOST_VALUES) -> list[Scalar]:
        if len(found) > most:
            raise InvalidInputError(
                f"'{field}' has more than {most:,} values, too many for this operator, which looks at each",
                code="invalid_field",
                name=field,
                limit=most,
            )
        return found


def _any(parts: Iterable[Where]) -> Where:
    united = tuple(parts)
    return united[0] if len(united) == 1 else Or(united)


def _leaves(where: Where) -> int:
    match where:
        case And(parts) | Or(parts):
            return sum(_leaves(part) for part in parts)
        case Not(part):
            return _leaves(part)
        case _:
            return 1


def _has_scalar(field: str) -> Where:
    return Or((Ordered(field, "$gte", ""), Ordered(field, "$gte", LEAST_NUMBER), In(field, (True, False))))


def _has_one_of(field: str, values: tuple[Scalar, ...]) -> Where:
    """Return the filter for a field that holds one of the values, alone or in a list."""
    distinct = tuple({(type(each), each): each for each in values}.values())
    return Or((In(field, distinct), *(Contains(field, each) for each in distinct)))


def _readings(value: Scalar) -> list[Scalar]:
    """Return all values that are written like this one: Dify writes most as texts."""
    text = _text(value)
    readings: list[Scalar] = [text]
    if text in ("true", "false"):
        readings.append(text == "true")
    number = _as_number(text)
    if number is not None and _text(number) == text:
        readings.append(number)
    return readings


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _as_number(text: str) -> int | float | None:
    if not text.isascii() or "_" in text:  # which Python reads in numbers
        return None
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        is_stored = -(2**63) <= number < 2**64 if kind is int else abs(number) <= -LEAST_NUMBER
        return number if is_stored else None
    return None


def _number(value: Scalar, operator: str) -> int | float:
    number = None if isinstance(value, bool) else _as_number(_text(value))
    if number is None:
        raise _unusable(f"{operator} compares numbers of at most 64 bits, not '{_text(value)[:100]}'")
    return number


def _moment(value: Scalar, operator: str) -> datetime:
    text = _text(value).strip()
    is_date = isinstance(value, bool) or (isinstance(value, str) and DATE.fullmatch(text))
    number = None if is_date else _as_number(text)
    try:
        found = _instant(text) if number is None else datetime.fromtimestamp(number, UTC)
        if found is not None:
            _ = found - DAY, found + 2 * DAY
    except (ValueError, OverflowError, OSError):
        found = None
    if found is None:
        raise _unusable(f"{operator} takes seconds since 1970 or a time in ISO 8601, not '{_text(value)[:100]}'")
    return found


def _instant(text: str) -> datetime | None:
    """Return the instant of a date or time in ISO 8601, in UTC unless it says otherwise; None for any other text."""
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _single(given: tuple[Scalar, ...], operator: str) -> Scalar:
    if len(given) != 1:
        raise _unusable(f"{operator} takes one value")
    return given[0]


def _unusable(sentence: str) -> InvalidInputError:
    return InvalidInputError(f"In metadata_condition, {sentence}", code="invalid_field", field="metadata_condition")
