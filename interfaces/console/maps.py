"""Maps of collections: the points of a projection in groups of one colour and shape, by the values of a field."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DRAWN = 1_000
"""The points of the picture that is shown without scripts."""
MOST_GROUPS = 10
STEPS = 8
"""The colours of numbers, from the lowest to the highest."""
SHAPES = (
    "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
    "M-4.4-4.4h8.8v8.8h-8.8z",
    "M0-5.6L5.4 4.2H-5.4z",
    "M0-6L5 0L0 6L-5 0z",
    "M-2-5.5h4v3.5h3.5v4h-3.5v3.5h-4v-3.5h-3.5v-4h3.5z",
)
"""Paths about ten across, around zero: circle, square, triangle, diamond, cross."""
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Group:
    """Points that look alike. `value` is the one that they share, for a link to the documents with it; `colour` is a
    class of the style sheet."""

    title: str
    count: int
    colour: str
    shape: int = 0
    value: Any = None


@dataclass(frozen=True, slots=True)
class Map:
    """Groups, points (x, y, place of their group) to draw, and for numbers the lowest of each group."""

    groups: tuple[Group, ...]
    points: tuple[tuple[float, float, int], ...]
    bounds: tuple[float, ...] = ()

    @staticmethod
    def of(projection: Json) -> Map:
        """Return the map of an answer of the route of projections."""
        points, scale = projection["points"], projection.get("scale")
        values: Sequence[Any] = points.get("value", [None] * len(points["ids"]))
        bounds: tuple[float, ...] = ()
        if scale == "categories":
            named = projection["categories"][:MOST_GROUPS]
            groups = [
                Group(_spelled(each["value"]), each["count"], f"value-{place}", place % len(SHAPES), each["value"])
                for place, each in enumerate(named)
            ]
            of_points = [None if value is None else value if 0 <= value < len(named) else -1 for value in values]
        elif scale == "numbers":
            bounds, titles = _steps([value for value in values if value is not None])
            of_points = [None if value is None else bisect_right(bounds, value) - 1 for value in values]
            counts = Counter(of_points)
            groups = [
                Group(title, counts[place], f"step-{place * (STEPS - 1) // max(1, len(titles) - 1)}")
                for place, title in enumerate(titles)
            ]
        else:
            groups, of_points = [], [-1] * len(values)
        return _with_rest(groups, of_points, points, bounds, projection)


def _with_rest(
    groups: list[Group],
    of_points: Sequence[int | None],
    points: Json,
    bounds: tuple[float, ...],
    projection: Json,
) -> Map:
    counts, named = Counter(of_points), len(groups)
    is_coloured = projection.get("scale") is not None
    others = Group("other values", counts[-1], "value-others")
    if not is_coloured:
        others = Group("all documents", counts[-1], "value-0")
    without = Group(f"without {projection.get('field')}", counts[None], "value-none")
    every = (*groups, others, without)
    step = max(1, len(of_points) / DRAWN)
    chosen = sorted({int(number * step) for number in range(min(DRAWN, len(of_points)))})
    drawn = tuple(
        (points["x"][row], points["y"][row], named + 1 if group is None else named if group < 0 else group)
        for row, group in ((row, of_points[row]) for row in chosen)
    )
    return Map(every, drawn, bounds)


def _steps(numbers: list[float]) -> tuple[tuple[float, ...], list[str]]:
    """Return the lowest number and the title of each group: one for each number where they are few."""
    distinct = sorted(set(numbers))
    if len(distinct) <= STEPS:
        return tuple(distinct), [_spelled(each) for each in distinct]
    lowest, highest = distinct[0], distinct[-1]
    bounds = [lowest + (highest - lowest) * step / STEPS for step in range(STEPS)]
    ends = [*bounds[1:], highest]
    return tuple(bounds), [f"{_spelled(start)} – {_spelled(end)}" for start, end in zip(bounds, ends, strict=True)]


def _spelled(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{value:.6g}"
