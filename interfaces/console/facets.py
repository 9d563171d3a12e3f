"""Facets: how often each value of a field occurs, to narrow a question or a list by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from interfaces.console.filters import both, having
from interfaces.console.forms import json_of
from interfaces.console.wire import RefusedError, Wire, encoded
from schemas.errors import InvalidInputError
from schemas.metadata import UNNAMEABLE

FIELDS = ("kind", "source", "tags", "language")
"""The fields of documents that were read from files and texts."""
MOST_COLLECTIONS = 5
"""The collections whose values are counted, at most."""
MOST_VALUES = 8


@dataclass(frozen=True, slots=True)
class Facet:
    field: str
    values: tuple[tuple[Any, int], ...]


def facets_of(wire: Wire, collections: Iterable[str], where: Any) -> list[Facet]:
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
    return [
        Facet(field, tuple((orjson.loads(value), count) for value, count in found.most_common(MOST_VALUES)))
        for field, found in counts.items()
        if len(found) > 1
    ]


def condition_of(field: str, value: Any) -> str:
    """Return the text of a query string that `narrowed` reads."""
    return orjson.dumps([field, value]).decode()


def narrowed(where: Any, condition: str) -> Any:
    """Return a filter that a document must match besides having a value in a field. Raises InvalidInputError."""
    said = json_of(condition, "only")
    if not isinstance(said, list) or len(said) != 2 or not isinstance(said[0], str):
        raise InvalidInputError("only must be a JSON array of a field and its value", field="only")
    field, value = said
    if field.startswith(UNNAMEABLE):
        raise InvalidInputError(
            "only must begin with the name of a field that filters know, not an operator", field="only"
        )
    return both(where, having(field, value))
