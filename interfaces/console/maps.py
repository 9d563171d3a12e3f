"""Maps of collections: the points of a projection in groups of one colour and shape, by the values of a field."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
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


def drawn(projection: Json) -> Json:
    """Return the map of an answer of the route of projections: groups of points that look alike, each with the class of
    the style sheet that colours it, and the value that its points share, if any; the place of each point's group among
    them, a hexadecimal digit; and some of the points to draw: x, y, and the place of their group."""
    points, scale = projection["points"], projection.get("scale")
    values: Sequence[Any] = points.get("value", [None] * len(points["ids"]))
    groups: list[dict[str, Any]] = []
    if scale == "categories":
        for place, value in enumerate(each["value"] for each in projection["categories"][:MOST_GROUPS]):
            looks = {"colour": f"value-{place}", "shape": place % len(SHAPES)}
            groups.append({"title": _spelled(value), **looks, "value": value})
        places = [each if each is not None and 0 <= each < len(groups) else -1 for each in values]
    elif scale == "numbers":
        bounds, titles = _steps([value for value in values if value is not None])
        last = max(1, len(titles) - 1)
        groups = [{"title": title, "colour": f"step-{n * (STEPS - 1) // last}"} for n, title in enumerate(titles)]
        places = [-1 if value is None else bisect_right(bounds, value) - 1 for value in values]
    else:
        places = [-1] * len(values)
    others, without = len(groups), len(groups) + 1
    everything = {"title": "all documents", "colour": "value-0"}
    groups.append({"title": "other values", "colour": "value-others"} if scale else everything)
    groups.append({"title": f"without {projection.get('field')}", "colour": "value-none"})
    of_points = [
        without if scale and value is None else others if place < 0 else place
        for value, place in zip(values, places, strict=True)
    ]
    counts = Counter(of_points)
    step = max(1, len(of_points) / DRAWN)
    chosen = sorted({int(number * step) for number in range(min(DRAWN, len(of_points)))})
    return {
        "groups": [{"shape": 0, "value": None, **each, "count": counts[place]} for place, each in enumerate(groups)],
        "digits": "".join(f"{place:x}" for place in of_points),
        "points": [(points["x"][row], points["y"][row], of_points[row]) for row in chosen],
    }


def _steps(numbers: list[float]) -> tuple[list[float], list[str]]:
    """Return the lowest number and the title of each group: one for each number where they are few."""
    distinct = sorted(set(numbers))
    if len(distinct) <= STEPS:
        return distinct, [_spelled(each) for each in distinct]
    lowest, highest = distinct[0], distinct[-1]
    bounds = [lowest + (highest - lowest) * step / STEPS for step in range(STEPS)]
    ends = [*bounds[1:], highest]
    return bounds, [f"{_spelled(start)} – {_spelled(end)}" for start, end in zip(bounds, ends, strict=True)]


def _spelled(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{value:.6g}"
