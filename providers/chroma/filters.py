"""Translates the `where` grammar into Chroma's: exactly, or not at all.

Chroma has no `$not`, so negations move inwards by De Morgan; its own negative operators also match documents without
the field, as ours do. Chroma drops the fraction of a number before it compares it with integers, so a comparison with
such a number is completed by one with a whole number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from providers.unsupported_filters import UnsupportedFilterError, check_number
from schemas.metadata import RESERVED_PREFIXES
from schemas.where import (
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

Clause = dict[str, Any]

CHROMA = "Chroma"
MAX_CONDITIONS = 256
"""The most conditions of one filter: some hundreds more make Chroma fail."""
UNHELD_PREFIXES = ("#", "$", *RESERVED_PREFIXES)
"""The beginnings of metadata keys that Chroma refuses, drops or takes for something else."""


def to_chroma(where: Where) -> Clause | bool:
    """Return a filter for Chroma, True when everything matches and False when nothing can.

    Raises UnsupportedFilterError when Chroma cannot answer the filter exactly.
    """
    clause = _translated(where, negated=False)
    if _conditions(clause) > MAX_CONDITIONS:
        raise UnsupportedFilterError(CHROMA, "$or", "", f"the filter has more than {MAX_CONDITIONS} conditions")
    return clause


def is_key_held(key: str) -> bool:
    """Return whether Chroma keeps this metadata key as it is."""
    return bool(key) and not key.startswith(UNHELD_PREFIXES)


def _translated(where: Where, *, negated: bool) -> Clause | bool:
    match where:
        case And(parts):
            combine = _any if negated else _all
            return combine(_translated(part, negated=negated) for part in parts)
        case Or(parts):
            combine = _all if negated else _any
            return combine(_translated(part, negated=negated) for part in parts)
        case Not(part):
            return _translated(part, negated=not negated)
        case Equals(path, value):
            return _equals("$eq", path, value, negated)
        case In(path, values):
            return _in(path, values, negated)
        case Contains(path, value):
            return _contains(path, value, negated)
        case Ordered(path, operator, value):
            if negated:
                raise UnsupportedFilterError(CHROMA, "$not", path, f"it has no opposite of {operator}")
            return _ordered(path, operator, value)
        case Exists(path):
            raise UnsupportedFilterError(CHROMA, "$exists", path, "it cannot ask whether a field is there")
        case TextContains() | TextMatches():
            raise UnsupportedFilterError(CHROMA, "$text", TEXT, "the text is not asked for in filters")
        case HasId():
            raise UnsupportedFilterError(CHROMA, "$in", ID, "it has no ids in its filters")


def _equals(operator: str, path: str, value: Scalar, negated: bool) -> Clause | bool:
    if isinstance(value, bool | str):
        return _condition("$ne" if negated else "$eq", path, value)
    whole = _whole(operator, path, value)
    if whole == value:
        return _condition("$ne" if negated else "$eq", path, whole)
    if negated:
        return _any([_condition("$ne", path, value), _condition("$eq", path, whole)])
    return _all([_condition("$eq", path, value), _condition("$ne", path, whole)])


def _in(path: str, values: tuple[Scalar, ...], negated: bool) -> Clause | bool:
    """Return the condition that the field holds one of the values or, with `negated`, none of them.

    A list of Chroma's holds values of one type, so each type has a list of its own. Whole numbers also find floats.
    """
    operator, combine = ("$nin", _all) if negated else ("$in", _any)
    texts: list[Scalar] = []
    truths: list[Scalar] = []
    wholes: list[Scalar] = []
    clauses: list[Clause | bool] = []
    for value in values:
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, bool):
            truths.append(value)
        elif (whole := _whole(operator, path, value)) == value:
            wholes.append(whole)
        else:
            clauses.append(_equals(operator, path, value, negated))
    clauses += [_condition(operator, path, alike) for alike in (texts, truths, wholes) if alike]
    return combine(clauses)


def _contains(path: str, value: Scalar, negated: bool) -> Clause | bool:
    operator, combine = ("$not_contains", _all) if negated else ("$contains", _any)
    if isinstance(value, bool | str):
        return _condition(operator, path, value)
    # In lists, unlike elsewhere, Chroma keeps 1 and 1.0 apart.
    spellings = {type(each): each for each in (value, _whole(operator, path, value)) if each == value}
    spellings[float] = float(value)
    return combine(_condition(operator, path, each) for each in spellings.values())


def _ordered(path: str, operator: str, value: int | float | str) -> Clause | bool:
    if isinstance(value, str):
        raise UnsupportedFilterError(CHROMA, operator, path, "it orders numbers only, no strings")
    whole = _whole(operator, path, value)
    if whole == value:
        return _condition(operator, path, whole)
    clause = _condition(operator, path, value)
    # Chroma drops the fraction of `value` before it compares it with an integer. So the integer `whole` counts as equal
    # to `value`, although it is smaller or larger.
    holds_in_truth = (whole > value) == (operator in ("$gt", "$gte"))
    holds_in_chroma = operator in ("$gte", "$lte")
    if holds_in_truth == holds_in_chroma:
        return clause
    if holds_in_truth:
        return _any([clause, _condition("$eq", path, whole)])
    return _all([clause, _condition("$ne", path, whole)])


def _whole(operator: str, path: str, value: int | float) -> int:
    check_number(CHROMA, operator, path, value)
    return math.trunc(value)


def _condition(operator: str, path: str, operand: Any) -> Clause:
    if not is_key_held(path):
        raise UnsupportedFilterError(CHROMA, operator, path, "it has no such field names")
    return {path: {operator: operand}}


def _all(clauses: Iterable[Clause | bool]) -> Clause | bool:
    return _combined("$and", clauses, neutral=True)


def _any(clauses: Iterable[Clause | bool]) -> Clause | bool:
    return _combined("$or", clauses, neutral=False)


def _combined(operator: str, clauses: Iterable[Clause | bool], *, neutral: bool) -> Clause | bool:
    parts: list[Clause] = []
    for clause in clauses:
        if isinstance(clause, dict):
            parts.append(clause)
        elif clause is not neutral:
            return clause
    if not parts:
        return neutral
    return parts[0] if len(parts) == 1 else {operator: parts}


def _conditions(clause: Clause | bool) -> int:
    if isinstance(clause, bool):
        return 0
    parts = [part for operator in ("$and", "$or") for part in clause.get(operator, ())]
    return sum(map(_conditions, parts)) if parts else 1
