"""Vectors as pages show them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

BARS = 96


@dataclass(frozen=True, slots=True)
class Vector:
    values: tuple[float, ...]

    @staticmethod
    def of(embedding: Any) -> Vector | None:
        return None if not embedding else Vector(tuple(embedding))

    @property
    def length(self) -> float:
        """Its Euclidean length."""
        return math.sqrt(sum(value * value for value in self.values))

    @property
    def bars(self) -> list[tuple[int, float, float]]:
        """The first values as bars: (place, top, height) in a plot 40 high whose zero is in the middle."""
        shown = self.values[:BARS]
        highest = max((abs(value) for value in shown), default=0.0) or 1.0
        return [
            (place, round(20 - max(value, 0) / highest * 20, 2), round(abs(value) / highest * 20, 2))
            for place, value in enumerate(shown)
        ]
