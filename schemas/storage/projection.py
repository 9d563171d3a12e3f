"""A projection: the documents of a collection as points in a plane, and the values of a field by which they are
coloured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.records import Collection

MAX_POINTS = 20_000
MAX_CATEGORIES = 100
"""The values of a field that a projection names. The points of rarer ones are counted as others."""
OTHERS = -1
"""The category of a point whose value is not named."""


class Scale(StrEnum):
    """What the values of a field are, if any document has it."""

    CATEGORIES = "categories"
    NUMBERS = "numbers"


@dataclass(frozen=True, slots=True)
class Colouring:
    """The values of a field, point by point; None for a document without it.

    On the scale of numbers `of_points` has the numbers themselves. Otherwise it has places in `categories`, which are
    (value, number of points), most frequent first; `OTHERS` stands for values beyond them.
    """

    field: str
    scale: Scale | None
    of_points: list[Any]
    categories: tuple[tuple[Any, int], ...] = ()

    @staticmethod
    def of(field: str, values: Sequence[Any]) -> Colouring:
        """Return the colouring by these values, one for each point: a scalar, or None."""
        given = [value for value in values if value is not None]
        if not given:
            return Colouring(field, None, list(values))
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in given):
            return Colouring(field, Scale.NUMBERS, list(values))
        # In Python, 1 and true are equal.
        counts = Counter((isinstance(value, bool), value) for value in given)
        named = sorted(counts.items(), key=lambda each: (-each[1], *map(str, each[0])))[:MAX_CATEGORIES]
        places = {value: place for place, (value, _) in enumerate(named)}
        of_points = [
            None if value is None else places.get((isinstance(value, bool), value), OTHERS) for value in values
        ]
        return Colouring(field, Scale.CATEGORIES, of_points, tuple((value, count) for (_, value), count in named))


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """Points of documents, in the order of insertion.

    places: float32 (n, 2), from -1 to 1 along the axis on which they spread farther, in the middle along the other;
    explained: the share of the vectors' variance that each axis shows. `total` is the number of documents that match,
    of which the n points are a sample when it is greater.
    """

    collection: Collection
    total: int
    ids: list[str]
    places: NDArray[np.float32]
    explained: tuple[float, float]
    colouring: Colouring | None = None
