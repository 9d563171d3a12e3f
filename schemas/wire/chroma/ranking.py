"""Rank expressions of Chroma's search: what each names as nearest, joined by arithmetic. A lower score is better.

A document is scored when every `$knn` without a `default` found it, and at least one found it at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.documents import parse_embedding
from schemas.errors import InvalidInputError, UnsupportedError
from schemas.records import Vector

MAX_DEPTH = 32
MAX_NEAREST = 16
"""The most `$knn` of one expression."""
MAX_PARTS = 1_000
"""The most parts of one expression, constants and operators included."""
CANDIDATES = 16
"""What a `$knn` takes that names no limit."""
MAX_CANDIDATES = 10_000
EMBEDDING, DOCUMENT = "#embedding", "#document"
SPARSE = "Sparse vectors are not searched here; words with the key '#document' are ranked by BM25"
NOT_EMBEDDED = "A text query of '#embedding' is not embedded here: send its vector"

Column = tuple[NDArray[np.float64], NDArray[np.bool_]]
"""The score of each document that any `$knn` found, and whether it has one."""

JOINING: dict[str, Callable[..., Any]] = {
    "$sum": np.add,
    "$mul": np.multiply,
    "$max": np.maximum,
    "$min": np.minimum,
    "$sub": np.subtract,
    "$div": np.divide,
}
OF_TWO = ("$sub", "$div")
OF_ONE: dict[str, Callable[..., Any]] = {"$abs": np.abs, "$exp": np.exp, "$log": np.log}


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """The `limit` documents nearest to a vector, or those that the words of a text find best."""

    query: Vector | str
    limit: int
    default: float | None
    by_rank: bool


@dataclass(frozen=True, slots=True)
class Joined:
    """Scores joined by an operator; an operator of one score has one part, a constant has none."""

    operator: str
    parts: tuple[Rank, ...] = ()
    value: float = 0.0


Rank = Nearest | Joined


def parse_rank(source: Any, pointer: str) -> Rank:
    """Return the tree of a rank expression.

    Raises InvalidInputError whose `details.pointer` locates what is wrong, and UnsupportedError for sparse vectors and
    for texts that would have to be embedded.
    """
    rank = _parsed(source, pointer, 0)
    if sum(1 for _ in nearest_of(rank)) > MAX_NEAREST:
        raise _wrong(f"rank has more than {MAX_NEAREST} $knn", pointer)
    if _size(rank) > MAX_PARTS:
        raise _wrong(f"rank has more than {MAX_PARTS:,} parts", pointer)
    return rank


def nearest_of(rank: Rank) -> Iterator[Nearest]:
    """Give the `$knn` of an expression, from left to right."""
    if isinstance(rank, Nearest):
        yield rank
    else:
        for part in rank.parts:
            yield from nearest_of(part)


def ranked(rank: Rank, found: Mapping[Nearest, Sequence[tuple[str, float]]]) -> list[tuple[str, float]]:
    """Return (id, score) of the documents that have a score, best first.

    `found` has (id, distance) of what each `$knn` found, nearest first. Scores that are no numbers come last.
    """
    ids = list(dict.fromkeys(each for documents in found.values() for each, _ in documents))
    places = {each: place for place, each in enumerate(ids)}

    def column(of: Rank) -> Column:
        if isinstance(of, Nearest):
            scores = np.full(len(ids), math.nan if of.default is None else of.default)
            known = np.full(len(ids), of.default is not None)
            for number, (each, distance) in enumerate(found[of]):
                scores[places[each]] = number if of.by_rank else distance
                known[places[each]] = True
            return scores, known
        if not of.parts:
            return np.full(len(ids), of.value), np.full(len(ids), True)
        columns = [column(part) for part in of.parts]
        if of.operator in OF_ONE:
            [(scores, known)] = columns
            return OF_ONE[of.operator](scores), known
        scores = reduce(JOINING[of.operator], (each for each, _ in columns))
        return scores, np.logical_and.reduce([each for _, each in columns])

    with np.errstate(all="ignore"):
        scores, known = column(rank)
    order = np.argsort(scores, kind="stable")  # which puts NaN last
    return [(ids[place], float(scores[place])) for place in order if known[place]]


def _size(rank: Rank) -> int:
    return 1 if isinstance(rank, Nearest) else 1 + sum(_size(part) for part in rank.parts)


def _parsed(source: Any, pointer: str, depth: int) -> Rank:
    if depth > MAX_DEPTH:
        raise _wrong(f"rank is nested deeper than {MAX_DEPTH} levels", pointer)
    if not isinstance(source, dict) or len(source) != 1:
        raise _wrong("a rank is an object of one operator", pointer)
    [(operator, operand)] = source.items()
    here = f"{pointer}/{operator}"
    if operator == "$val":
        return Joined(operator, value=_number(operand, here))
    if operator == "$knn":
        return _nearest(operand, here)
    if operator in OF_ONE:
        return Joined(operator, (_parsed(operand, here, depth + 1),))
    if operator in OF_TWO:
        if not isinstance(operand, dict) or set(operand) != {"left", "right"}:
            raise _wrong(f"{operator} needs left and right", here)
        return Joined(
            operator, tuple(_parsed(operand[side], f"{here}/{side}", depth + 1) for side in ("left", "right"))
        )
    if operator not in JOINING:
        raise _wrong(f"unknown operator of rank '{operator[:50]}'", here)
    if not isinstance(operand, list) or not operand:
        raise _wrong(f"{operator} needs an array of ranks", here)
    return Joined(operator, tuple(_parsed(each, f"{here}/{place}", depth + 1) for place, each in enumerate(operand)))


def _nearest(operand: Any, pointer: str) -> Nearest:
    if not isinstance(operand, dict) or "query" not in operand:
        raise _wrong("$knn needs an object with a query", pointer)
    key, query = operand.get("key", EMBEDDING), operand["query"]
    if isinstance(query, dict) or key not in (EMBEDDING, DOCUMENT):
        raise UnsupportedError(SPARSE)
    if isinstance(query, str) != (key == DOCUMENT):
        if key == EMBEDDING:
            raise UnsupportedError(NOT_EMBEDDED)
        raise _wrong("a query of '#document' is a text", f"{pointer}/query")
    limit = operand.get("limit", CANDIDATES)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise _wrong("limit of $knn must be a whole number of at least 1", f"{pointer}/limit")
    default, by_rank = operand.get("default"), operand.get("return_rank", False)
    if not isinstance(by_rank, bool):
        raise _wrong("return_rank of $knn must be true or false", f"{pointer}/return_rank")
    return Nearest(
        query if isinstance(query, str) else parse_embedding(query, field="rank"),
        min(limit, MAX_CANDIDATES),
        None if default is None else _number(default, f"{pointer}/default"),
        by_rank,
    )


def _number(value: Any, pointer: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > np.finfo(np.float64).max:
        raise _wrong("a value of rank must be a number", pointer)
    return float(value)


def _wrong(sentence: str, pointer: str) -> InvalidInputError:
    return InvalidInputError(sentence, code="invalid_field", field="rank", pointer=pointer)
