"""Plots of the last hour: a bar for each minute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HEIGHT = 60.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar in a plot `HEIGHT` high; `place` counts minutes from the oldest."""

    place: int
    height: float
    minute: str
    value: float


@dataclass(frozen=True, slots=True)
class Plot:
    title: str
    unit: str
    highest: float
    bars: tuple[Bar, ...]


def traffic_plots(minutes: Sequence[Mapping[str, Any]]) -> list[Plot]:
    """Return the requests, errors and latencies of an answer of `/api/service/recent` as plots."""
    return [
        _plot("Requests", "a minute", [(each["minute"], each["requests"]) for each in minutes]),
        _plot("Errors", "a minute", [(each["minute"], each["errors"]) for each in minutes]),
        _plot("Median latency", "ms", [(each["minute"], each["p50_ms"] or 0) for each in minutes]),
        _plot("95th percentile", "ms", [(each["minute"], each["p95_ms"] or 0) for each in minutes]),
    ]


def _plot(title: str, unit: str, values: Sequence[tuple[str, float]]) -> Plot:
    highest = max((value for _, value in values), default=0)
    bars = tuple(
        Bar(place, round(value / highest * HEIGHT, 2) if highest else 0.0, minute, value)
        for place, (minute, value) in enumerate(values)
    )
    return Plot(title, unit, highest, bars)
