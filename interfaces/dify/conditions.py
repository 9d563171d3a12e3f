"""Dify's conditions on metadata as a `where` filter, so that the search itself looks among the matches alone.

Some of Dify's operators ask what no index knows: whether a text contains or ends with another, which instant a text
stands for. These are asked of the values that the field has, and the filter names those that hold. So the answer is
exact, and no match is missed, as it would be if results were sorted out afterwards. What bounds the work is the number
of values, not of documents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from schemas.contracts.dify import Condition
from schemas.errors import InvalidInputError
from schemas.where import EVERYTHING, And, Contains, Exists, In, Not, Or, Ordered, Scalar, Where, all_of, any_of

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
FIRST_MOMENT, LAST_MOMENT = datetime.min.replace(tzinfo=UTC) + DAY, datetime.max.replace(tzinfo=UTC) - 2 * DAY
"""What conditions compare with: `_in_time` looks at the days around it, too."""
TEXT_HOLDS: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda value, given: given in value,
    "start with": str.startswith,
    "end with": str.endswith,
}
ORDERS = {">": "$gt", "<": "$lt", "≥": "$gte", "≤": "$lte"}
NEGATIONS = {"not contains": "contains", "is not": "is", "not in": "in", "≠": "=", "empty": "not empty"}

Values = Callable[[str, Where, int], list[Scalar]]
"""Returns the distinct values, elements of lists too, that a field has among the documents that match: at most as many
as are asked for, and one more."""


@dataclass(frozen=True, slots=True)
class ConditionFilters:
    """Makes filters of conditions, by the values that the collections asked have."""

    values: Values

    def where(self, conditions: Iterable[Condition], *, any_holds: bool) -> Where:
        """Return the filter that all conditions make, or any of them. Raises InvalidInputError for a value that an
        operator cannot compare, and for a field of too many values for an operator that looks at each."""
        parts = [self._of(place, each) for place, each in enumerate(conditions)]
        if not parts:
            return EVERYTHING
        where = any_of(*parts) if any_holds else all_of(*parts)
        if _leaves(where) > 2 * MOST_ELEMENTS:
            raise _unusable("the conditions name too many values of lists")
        return where

    def _of(self, place: int, condition: Condition) -> Where:
        positive = NEGATIONS.get(condition.operator, condition.operator)
        try:
            where = any_of(*(self._holds(name, positive, condition.values) for name in condition.names))
        except InvalidInputError as error:
            error.details["field"] = f"metadata_condition.conditions.{place}.value"
            raise
        return where if positive == condition.operator else Not(where)

    def _holds(self, field: str, operator: str, given: tuple[Scalar, ...]) -> Where:
        if operator in (*ORDERS, "before", "after") and len(given) != 1:
            raise _unusable(f"{operator} takes one value")
        match operator:
            case "is" | "in":
                return _has_one_of(field, [each for value in given for each in _readings(value)])
            case "=":
                return _has_one_of(field, [_number(value, "= or ≠") for value in given])
            case ">" | "<" | "≥" | "≤":
                return Ordered(field, ORDERS[operator], _number(given[0], operator))
            case "before" | "after":
                return self._in_time(field, operator, _moment(given[0], operator))
            case "not empty":
                alone = And((_has_scalar(field), Not(In(field, ("",)))))
                return any_of(alone, *self._in_lists(field, lambda each: each != ""))
        holds, texts = TEXT_HOLDS[operator], [_text(each) for each in given]

        def is_meant(value: Scalar) -> bool:
            return any(holds(_text(value), each) for each in texts)

        scalars = self._listed(field, _has_scalar(field), MOST_VALUES)
        return any_of(In(field, tuple(filter(is_meant, scalars))), *self._in_lists(field, is_meant))

    def _in_time(self, field: str, operator: str, moment: datetime) -> Where:
        """Return the filter for numbers, which are seconds since the epoch, and for texts in ISO 8601.

        Where there are too many texts to look at, those that begin with a digit are taken for times: then the order of
        texts is that of times, but for those within a day of the moment, whose zones count.
        """
        is_before = operator == "before"
        parts: list[Where] = [Ordered(field, "$lt" if is_before else "$gt", moment.timestamp())]
        texts = self.values(field, Ordered(field, "$gte", ""), MOST_VALUES)
        if len(texts) > MOST_VALUES:
            early, late = ((moment + shift).date().isoformat() for shift in (-DAY, 2 * DAY))
            texts = self._listed(field, _between(field, early, late), MOST_VALUES)
            parts.append(_between(field, "0", early) if is_before else _between(field, late, BEHIND_DIGITS))
        instants = {each: at for each in texts if isinstance(each, str) and (at := _instant(each)) is not None}
        meant = [each for each, at in instants.items() if (at < moment if is_before else at > moment)]
        return any_of(*parts, In(field, tuple(meant)))

    def _in_lists(self, field: str, is_meant: Callable[[Scalar], bool]) -> list[Where]:
        """Return the filters for the elements that are meant, of lists that the field holds."""
        in_lists = And((Exists(field), Not(_has_scalar(field))))
        return [Contains(field, each) for each in self._listed(field, in_lists, MOST_ELEMENTS) if is_meant(each)]

    def _listed(self, field: str, where: Where, most: int) -> list[Scalar]:
        found = self.values(field, where, most)
        if len(found) > most:
            raise InvalidInputError(
                f"'{field}' has more than {most:,} values, too many for this operator, which looks at each",
                code="invalid_field",
                name=field,
                limit=most,
            )
        return found


def _leaves(where: Where) -> int:
    match where:
        case And(parts) | Or(parts):
            return sum(map(_leaves, parts))
        case Not(part):
            return _leaves(part)
    return 1


def _has_scalar(field: str) -> Where:
    return Or((Ordered(field, "$gte", ""), Ordered(field, "$gte", LEAST_NUMBER), In(field, (True, False))))


def _between(field: str, least: str, end: str) -> Where:
    return And((Ordered(field, "$gte", least), Ordered(field, "$lt", end)))


def _has_one_of(field: str, values: Iterable[Scalar]) -> Where:
    """Return the filter for a field that holds one of the values, alone or in a list."""
    distinct = tuple({(type(each), each): each for each in values}.values())
    return any_of(In(field, distinct), *(Contains(field, each) for each in distinct))


def _readings(value: Scalar) -> list[Scalar]:
    """Return all values that are written like this one: Dify writes most as texts."""
    text = _text(value)
    read = _read(text)
    return [text, *([read] if isinstance(read, int | float) and _text(read) == text else [])]


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(text: str) -> bool | int | float | None:
    """Return the truth value or the number of at most 64 bits that a text is, None for any other text."""
    if text in ("true", "false"):
        return text == "true"
    if not text.isascii() or "_" in text:  # which Python reads in numbers
        return None
    for kind in (int, float):
        with suppress(ValueError):
            number = kind(text)
            is_stored = -(2**63) <= number < 2**64 if kind is int else abs(number) <= -LEAST_NUMBER
            return number if is_stored else None
    return None


def _number(value: Scalar, operator: str) -> int | float:
    number = _read(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise _unusable(f"{operator} compares numbers of at most 64 bits, not '{_text(value)[:100]}'")
    return number


def _moment(value: Scalar, operator: str) -> datetime:
    text = _text(value).strip()
    number = None if DATE.fullmatch(text) and isinstance(value, str) else _read(text)
    try:
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        found = datetime.fromtimestamp(float(text), UTC) if is_number else _instant(text)
    except (ValueError, OverflowError, OSError):
        found = None
    if found is None or not FIRST_MOMENT <= found <= LAST_MOMENT:
        raise _unusable(f"{operator} takes seconds since 1970 or a time in ISO 8601, not '{_text(value)[:100]}'")
    return found


def _instant(text: str) -> datetime | None:
    """Return the instant of a date or time in ISO 8601, in UTC unless it says otherwise; None for any other text."""
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _unusable(sentence: str) -> InvalidInputError:
    return InvalidInputError(f"In metadata_condition, {sentence}", code="invalid_field", field="metadata_condition")
